import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/gen", "**/dist", "**/node_modules"] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
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
  { files: ["**/*.{js,mjs}"], ...tseslint.configs.disableTypeChecked },
  { files: ["examples/**/*.mjs"], languageOptions: { globals: { console: "readonly" } } },
);
