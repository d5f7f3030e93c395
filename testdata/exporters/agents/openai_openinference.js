// OpenAI's SDK, under the instrumentation of OpenInference; the agent and the tools are traced with
// its helpers.
import { traceAgent, traceTool } from "@arizeai/openinference-core";
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import { registerInstrumentations } from "@opentelemetry/instrumentation";

import { loop } from "./openai_loop.js";

export const instrument = () => registerInstrumentations({ instrumentations: [new OpenAIInstrumentation()] });

export const run = (url, tools) => traceAgent(
  () => loop(url, tools, (name, args, call) => traceTool(() => call(), { name })(args)), { name: "shopper" })();
