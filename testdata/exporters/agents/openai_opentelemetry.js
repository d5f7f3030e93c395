// OpenAI's SDK, under the instrumentation of OpenTelemetry, which knows no tools.
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { OpenAIInstrumentation } from "@opentelemetry/instrumentation-openai";

import { loop, within } from "./openai_loop.js";

export const instrument = () => registerInstrumentations({ instrumentations: [new OpenAIInstrumentation()] });

export const run = (url, tools) => within(() => loop(url, tools, (name, args, call) => call()));
