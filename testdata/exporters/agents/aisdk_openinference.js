// An agent of the AI SDK; the span processor of OpenInference translates its spans.
import { OpenInferenceBatchSpanProcessor } from "@arizeai/openinference-vercel";

export { run } from "./aisdk.js";

export const processor = (exporter) => new OpenInferenceBatchSpanProcessor({ exporter });
