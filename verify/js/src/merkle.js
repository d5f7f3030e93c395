// @ts-check
/**
 * The arithmetic of the log's tree (docs/merkle.md; RFC 6962, section 2.1).
 * Sizes and indexes have up to 64 bits: a number where it is exact, else a
 * BigInt.
 *
 * @typedef {number | bigint} Uint
 * @typedef {{size: Uint, root: string}} Head root in base64
 */
import { base64, unbase64 } from "./bytes.js";
import { Literal } from "./json.js";
import { sha256 } from "./sha256.js";

const ZERO = Uint8Array.of(0);
const ONE = Uint8Array.of(1);

/** @param {Uint8Array} data */
export const hashLeaf = (data) => sha256(ZERO, data);

/** @param {Uint8Array} left @param {Uint8Array} right */
export const hashChildren = (left, right) => sha256(ONE, left, right);

const EMPTY = sha256();

/** Root of the empty tree. */
export const EMPTY_ROOT = base64(EMPTY);

/**
 * @param {any} value
 * @returns {Uint8Array | null} null if value is not the text of a hash
 */
export function parseHash(value) {
  const raw = unbase64(value);
  return raw?.length === 32 ? raw : null;
}

/**
 * @param {any} value a decimal number, or a number of parsed JSON
 * @returns {Uint | null} null if it is no unsigned integer of 64 bits in its one spelling
 */
export function uint(value) {
  const raw = value instanceof Literal ? value.raw : value;
  if (typeof raw === "number") return Number.isSafeInteger(raw) && raw >= 0 && !Object.is(raw, -0) ? raw : null;
  if (typeof raw !== "string" || !/^(0|[1-9]\d{0,19})$/.test(raw)) return null;
  const n = BigInt(raw);
  if (n >> 64n) return null;
  return Number.isSafeInteger(Number(n)) ? Number(n) : n;
}

/**
 * Whether a path proves that the leaf stands at index in the tree of a head
 * (RFC 9162, section 2.1.3.2).
 *
 * @param {Uint} index
 * @param {Uint8Array} leaf its hash
 * @param {Head} head
 * @param {Uint8Array[]} path
 */
export function checkInclusion(index, leaf, head, path) {
  if (index >= head.size) return false;
  let fn = BigInt(index);
  let sn = BigInt(head.size) - 1n;
  let root = leaf;
  for (const hash of path) {
    if (sn === 0n) return false;
    if (fn & 1n || fn === sn) {
      root = hashChildren(hash, root);
      while (!(fn & 1n) && fn) {
        fn >>= 1n;
        sn >>= 1n;
      }
    } else root = hashChildren(root, hash);
    fn >>= 1n;
    sn >>= 1n;
  }
  return sn === 0n && base64(root) === head.root;
}

/**
 * Whether a path proves that the tree of older is a prefix of the tree of newer
 * (RFC 9162, section 2.1.4.2). The empty tree is a prefix of every tree, with
 * an empty path and its own root; so is every tree of itself.
 *
 * @param {Head} older
 * @param {Head} newer
 * @param {Uint8Array[]} path
 */
export function checkConsistency(older, newer, path) {
  const first = BigInt(older.size);
  if (older.size > newer.size || (first === 0n && older.root !== EMPTY_ROOT)) return false;
  if (first === 0n || older.size === newer.size) return !path.length && (first === 0n && older.size !== newer.size || older.root === newer.root);
  const hashes = [...path];
  if (!(first & (first - 1n))) hashes.unshift(/** @type {Uint8Array} */ (parseHash(older.root)));
  else if (!hashes.length) return false;
  if (!path.length) return false;
  let fn = first - 1n;
  let sn = BigInt(newer.size) - 1n;
  while (fn & 1n) {
    fn >>= 1n;
    sn >>= 1n;
  }
  let fr = /** @type {Uint8Array} */ (hashes[0]);
  let sr = fr;
  for (const hash of hashes.slice(1)) {
    if (sn === 0n) return false;
    if (fn & 1n || fn === sn) {
      fr = hashChildren(hash, fr);
      sr = hashChildren(hash, sr);
      while (!(fn & 1n) && fn) {
        fn >>= 1n;
        sn >>= 1n;
      }
    } else sr = hashChildren(sr, hash);
    fn >>= 1n;
    sn >>= 1n;
  }
  return sn === 0n && base64(fr) === older.root && base64(sr) === newer.root;
}

/** @param {bigint} n more than 1; @returns the largest power of two below n */
const split = (n) => 1n << BigInt((n - 1n).toString(2).length - 1);

/**
 * Whether a joint proof shows that leaves stand at their places, which ascend:
 * a subtree without a known leaf takes the next hash (docs/bundle.md).
 *
 * @param {{index: Uint, hash: Uint8Array}[]} places
 * @param {Head} head
 * @param {Uint8Array[]} path
 */
export function checkInclusions(places, head, path) {
  let next = 0;
  /** @type {(first: bigint, n: bigint, some: {index: bigint, hash: Uint8Array}[]) => Uint8Array} */
  const root = (first, n, some) => {
    const [only] = some;
    if (!only) return path[next++] ?? EMPTY;
    if (n === 1n) return only.hash;
    const k = split(n);
    const cut = some.findIndex((p) => p.index >= first + k);
    const at = cut < 0 ? some.length : cut;
    const left = root(first, k, some.slice(0, at));
    return hashChildren(left, root(first + k, n - k, some.slice(at)));
  };
  const size = BigInt(head.size);
  const known = places.map((p) => ({ index: BigInt(p.index), hash: p.hash }));
  if (known.some((p, i) => p.index >= size || (i > 0 && p.index <= /** @type {any} */ (known[i - 1]).index))) return false;
  const got = size === 0n ? EMPTY : root(0n, size, known);
  return next === path.length && base64(got) === head.root;
}

/**
 * @param {Uint8Array[]} leaves hashes of all leaves
 * @returns {Uint8Array} root of their tree
 */
export function treeRoot(leaves) {
  if (leaves.length < 2) return leaves[0] ?? EMPTY;
  const k = Number(split(BigInt(leaves.length)));
  return hashChildren(treeRoot(leaves.slice(0, k)), treeRoot(leaves.slice(k)));
}

