// LangChain's own agent, under the instrumentation of OpenLLMetry. It makes a trace of every call
// that has no span around it.
import * as callbackManagerModule from "@langchain/core/callbacks/manager";
import { LangChainInstrumentation } from "@traceloop/instrumentation-langchain";

import { run as runAgent } from "./langchain.js";
import { within } from "./openai_loop.js";

export const instrument = () => new LangChainInstrumentation().manuallyInstrument({ callbackManagerModule });

export const run = (url, tools) => within(() => runAgent(url, tools));
