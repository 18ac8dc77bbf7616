import { generateText as generateText6, stepCountIs, type ToolSet as ToolSet6 } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { generateText as generateText5, stepCountIs as stepCountIs5, type ToolSet as ToolSet5 } from "ai5";
import { MockLanguageModelV2 } from "ai5/test";
import type { ToolSet as ToolSet7 } from "ai7";
import { running } from "./behaviour/row.js";

/** How models end a step: a word, in version 5, and later an object. */
const ends = {
  "5": (reason: string) => ({ finishReason: reason, usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } }),
  later: (reason: string) => ({ finishReason: { unified: reason, raw: reason }, usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } } }),
};

/** A model that calls one tool, and then says what it was told. */
export function scripted(version: string, toolName: string, input: unknown) {
  const end = version === "5" ? ends["5"] : ends.later;
  let told: unknown;
  const answer = (options: { prompt: { role: string; content: unknown }[] }) => {
    const last = options.prompt.at(-1);
    if (last?.role !== "tool") {
      return { content: [{ type: "tool-call" as const, toolCallId: "1", toolName, input: JSON.stringify(input) }], ...end("tool-calls"), warnings: [] };
    }
    told = (last.content as { output: unknown }[])[0]?.output;
    return { content: [{ type: "text" as const, text: "done" }], ...end("stop"), warnings: [] };
  };
  return { answer: (options: never) => Promise.resolve(answer(options) as never), told: () => told };
}

type Run = (tools: object, script: ReturnType<typeof scripted>, more?: object) => Promise<{ content: { type: string }[]; response: { messages: object[] } }>;

/** What a model is asked: the messages of more, or to begin. */
const asked = (more: object) => ("messages" in more ? more as { messages: never[] } : { prompt: "go", ...more });

export const versions: Record<string, Run> = {
  "5": (tools, script) => generateText5({ model: new MockLanguageModelV2({ doGenerate: script.answer }), tools: tools as ToolSet5, prompt: "go", stopWhen: stepCountIs5(3) }),
  "6": (tools, script, more = {}) => generateText6({ model: new MockLanguageModelV3({ doGenerate: script.answer }), tools: tools as ToolSet6, stopWhen: stepCountIs(3), ...asked(more) }),
};
if (running >= 22) {
  const { generateText, isStepCount } = await import("ai7");
  const { MockLanguageModelV4 } = await import("ai7/test");
  versions["7"] = (tools, script, more = {}) => generateText({ model: new MockLanguageModelV4({ doGenerate: script.answer }), tools: tools as ToolSet7, stopWhen: isStepCount(3), ...asked(more) });
} else {
  console.log(`AI SDK 7 is left out: it needs Node 22, and this is ${process.version}`);
}
