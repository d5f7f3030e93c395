// An agent of LlamaIndex, under the instrumentation of OpenLLMetry, which knows no tools of it.
import { createRequire } from "node:module";

import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { LlamaIndexInstrumentation } from "@traceloop/instrumentation-llamaindex";

import { within } from "./openai_loop.js";
import { MODEL, QUESTION, SCHEMAS } from "./tools.js";

export const instrument = () => registerInstrumentations({ instrumentations: [new LlamaIndexInstrumentation()] });

export function run(url, tools) {
  const require = createRequire(import.meta.url);
  const [{ tool }, { openai }, { agent }] = ["llamaindex", "@llamaindex/openai", "@llamaindex/workflow"].map(require);
  const all = Object.entries(SCHEMAS).map(([name, [description, parameters]]) =>
    tool({ name, description, parameters, execute: (args) => JSON.stringify(tools[name](args)) }));
  const shopper = agent({ name: "shopper", tools: all, llm: openai({ model: MODEL, apiKey: "none", baseURL: url }) });
  return within(async () => (await shopper.run(QUESTION)).data.result);
}
