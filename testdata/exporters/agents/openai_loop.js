// A tool loop at OpenAI's SDK. Instrumentations of the SDK patch what require loads.
import { createRequire } from "node:module";

import { SpanStatusCode, trace } from "@opentelemetry/api";
import { z } from "zod";

import { MODEL, QUESTION, SCHEMAS } from "./tools.js";

const TOOLS = Object.entries(SCHEMAS).map(([name, [description, schema]]) =>
  ({ type: "function", function: { name, description, parameters: z.toJSONSchema(schema) } }));

/** Runs the loop; around(name, call) calls a tool of a name. */
export async function loop(url, tools, around) {
  const { OpenAI } = createRequire(import.meta.url)("openai");
  const client = new OpenAI({ baseURL: url, apiKey: "none" });
  const messages = [{ role: "user", content: QUESTION }];
  for (;;) {
    const { choices: [{ message }] } = await client.chat.completions.create({ model: MODEL, messages, tools: TOOLS });
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      const { name, arguments: args } = call.function;
      let content;
      try {
        content = JSON.stringify(await around(name, args, () => tools[name](JSON.parse(args))));
      } catch (error) {
        content = `Error: ${error.message}`;
      }
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

/** Runs a task within a span of the program's own, which no convention names. */
export const within = (task) => trace.getTracer("shopper").startActiveSpan("buy", async (span) => {
  try {
    return await task();
  } catch (error) {
    span.recordException(error);
    span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    throw error;
  } finally {
    span.end();
  }
});
