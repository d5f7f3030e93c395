// Runs an agent under its instrumentation: node run.js AGENT SCENE FILE. What the exporter of OTLP
// sends stands in FILE afterwards, one batch a line.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { newTools, startCollector, startModel } from "./far_ends.js";

const [name, scene, file] = process.argv.slice(2);
const collector = await startCollector(file);
const model = await startModel(scene);
const agent = await import(`./agents/${name}.js`);
const exporter = new OTLPTraceExporter({ url: `${collector.url}/v1/traces` });
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shopper" }),
  spanProcessors: [agent.processor ? agent.processor(exporter) : new BatchSpanProcessor(exporter)],
});
provider.register();
agent.instrument?.();
try {
  console.log(await agent.run(`${model.url}/v1`, newTools()));
} catch (error) {
  console.log(`failed: ${error.message}`);
}
await provider.shutdown();
model.close();
collector.close();
