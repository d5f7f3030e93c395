// OpenAI's SDK, under the instrumentation of OpenLLMetry, which knows no tools.
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { OpenAIInstrumentation } from "@traceloop/instrumentation-openai";

export { run } from "./openai_opentelemetry.js";

export const instrument = () => registerInstrumentations({ instrumentations: [new OpenAIInstrumentation()] });
