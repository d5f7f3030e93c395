// A graph of LangGraph, under the instrumentation of OpenInference.
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";

import { chatModel, langchainTools } from "./langchain.js";
import { QUESTION } from "./tools.js";

export { instrument } from "./langchain.js";

export async function run(url, tools) {
  const all = langchainTools(tools);
  const model = chatModel(url).bindTools(all);
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode("tools", new ToolNode(all))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (messages.at(-1).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "agent")
    .compile();
  const { messages } = await graph.invoke({ messages: [{ role: "user", content: QUESTION }] });
  return messages.at(-1).content;
}
