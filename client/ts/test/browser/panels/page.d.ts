/** What the test's document gives its scripts. */
declare global {
  /** Ends the test: what the script saw. */
  var report: (saw: unknown) => void;
  /** What the test told the page. */
  var settings: Record<string, string>;
}
export {};
