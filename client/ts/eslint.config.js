import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/gen", "**/dist", "**/node_modules"] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    // One program for all files: the service would make one for each tsconfig.json.
    languageOptions: { parserOptions: { project: "test/tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      "max-lines": ["error", 400],
      // Numbers in messages are what they look like.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Rejections carry what a signal or a stream was given: any value.
      "@typescript-eslint/prefer-promise-reject-errors": "off",
      "@typescript-eslint/only-throw-error": "off",
      // `return reject(…)` ends a function in one line.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreVoidOperator: true, ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true }],
    },
  },
  {
    // The table of behaviours calls functions with what their types forbid, and so without types.
    files: ["test/behaviour/**/*.ts"],
    rules: {
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/restrict-plus-operands": "off",
      // Loops that only go on are what some rows are about.
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_$" }],
      // An async function is how a row says that it is one.
      "@typescript-eslint/require-await": "off",
    },
  },
  { files: ["**/*.{js,mjs}"], ...tseslint.configs.disableTypeChecked },
  { files: ["examples/**/*.mjs"], languageOptions: { globals: { console: "readonly" } } },
);
