import eslint from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules", "src/gen", "test-results", "playwright-report"] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    plugins: { "react-hooks": hooks },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "max-lines": ["error", 400],
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Handlers and callbacks in one line.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreVoidOperator: true, ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true }],
      // Rejections carry what a signal or a stream was given: any value.
      "@typescript-eslint/only-throw-error": "off",
    },
  },
  { files: ["**/*.{js,mjs}"], ...tseslint.configs.disableTypeChecked, languageOptions: { parserOptions: { projectService: false }, globals: { console: "readonly", URL: "readonly" } } },
);
