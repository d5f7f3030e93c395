// An agent of the AI SDK, which records spans itself.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";

import { MODEL, QUESTION, SCHEMAS } from "./tools.js";

export async function run(url, tools) {
  const all = Object.entries(SCHEMAS).map(([name, [description, inputSchema]]) =>
    [name, tool({ description, inputSchema, execute: async (args) => tools[name](args) })]);
  const { text } = await generateText({
    model: createOpenAI({ baseURL: url, apiKey: "none" }).chat(MODEL), prompt: QUESTION, tools: Object.fromEntries(all),
    stopWhen: stepCountIs(9), experimental_telemetry: { isEnabled: true, functionId: "shopper" },
  });
  return text;
}
