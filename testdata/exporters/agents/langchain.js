// LangChain's own agent, under the instrumentation of OpenInference.
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbackManager from "@langchain/core/callbacks/manager";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";

import { MODEL, QUESTION, SCHEMAS } from "./tools.js";

export const instrument = () => new LangChainInstrumentation().manuallyInstrument(callbackManager);

export const langchainTools = (tools) => Object.entries(SCHEMAS).map(([name, [description, schema]]) =>
  tool((args) => JSON.stringify(tools[name](args)), { name, description, schema }));

export const chatModel = (url) => new ChatOpenAI({ model: MODEL, apiKey: "none", configuration: { baseURL: url } });

export async function run(url, tools) {
  const agent = createAgent({ model: chatModel(url), tools: langchainTools(tools) });
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: QUESTION }] });
  return messages.at(-1).content;
}
