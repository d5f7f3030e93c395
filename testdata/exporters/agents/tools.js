// The tools as frameworks want them: a name, a description, a schema, a function.
import { z } from "zod";

export const SCHEMAS = {
  get_price: ["The price of an item", z.object({ item: z.string() })],
  charge_card: ["Charges the card", z.object({ amount: z.number() })],
};

export const QUESTION = "Buy the book.";
export const MODEL = "gpt-4o-mini";
