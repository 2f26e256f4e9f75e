// Conversations, kept in the browser. Each is a tree of messages: an edited message, or another reply, stands beside the
// one before it, and `leaf` says which way is shown.
//
// Bounds: kMost conversations and kMostCharacters in all; those not used for longest go first.

import { keysOf, local } from './storage.js';

const kMost = 60;
const kMostCharacters = 3_000_000;
const kPrefix = 'reprise.chat.';

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), b => b.toString(16).padStart(2, '0')).join('');

export function newConversation() {
  return { id: newId(), used: Date.now(), leaf: null, nodes: {} };
}

function isConversation(value) {
  return value !== null && typeof value === 'object' && typeof value.id === 'string' && typeof value.nodes === 'object' &&
    value.nodes !== null && (value.leaf === null || value.nodes[value.leaf] !== undefined);
}

function read(key) {
  try {
    const value = JSON.parse(local.getItem(key));
    return isConversation(value) ? value : null;
  } catch {
    return null;
  }
}

const keys = () => keysOf(local).filter(key => key.startsWith(kPrefix));

/** Those that are kept, the one used last first. */
export function all() {
  return keys().map(read).filter(Boolean).sort((a, b) => b.used - a.used);
}

export const load = id => read(kPrefix + id);
export const remove = id => local.removeItem(kPrefix + id);
export const removeAll = () => keys().forEach(key => local.removeItem(key));

/** Keeps it; others may go for it. False: it is too large, or the browser keeps nothing. */
export function save(conversation) {
  conversation.used = Date.now();
  const text = JSON.stringify(conversation);
  if (text.length > kMostCharacters) return false;
  const others = all().filter(other => other.id !== conversation.id);
  let held = text.length + others.reduce((sum, other) => sum + (local.getItem(kPrefix + other.id)?.length ?? 0), 0);
  const dropOldest = () => {
    const oldest = others.pop();
    held -= local.getItem(kPrefix + oldest.id)?.length ?? 0;
    remove(oldest.id);
  };
  while (others.length > 0 && (others.length >= kMost || held > kMostCharacters)) dropOldest();
  for (;;) {
    try {
      local.setItem(kPrefix + conversation.id, text);
      return true;
    } catch {
      if (others.length === 0) return false;
      dropOldest();
    }
  }
}

// -- the tree

/** The messages from the first to this one. */
export function pathTo(conversation, id) {
  const path = [];
  for (let node = conversation.nodes[id]; node && path.length < 10_000; node = conversation.nodes[node.parent]) path.push(node);
  return path.reverse();
}

export function siblings(conversation, node) {
  return Object.values(conversation.nodes).filter(other => other.parent === node.parent && other.role === node.role)
    .sort((a, b) => a.at - b.at);
}

let lastAt = 0;
export function addMessage(conversation, parent, message) {
  lastAt = Math.max(Date.now(), lastAt + 1);  // no two at one time: their order is that of their making
  const node = { id: newId(), parent, at: lastAt, ...message };
  conversation.nodes[node.id] = node;
  conversation.leaf = node.id;
  return node;
}

/** The end of the way that was taken last from this message on. */
export function latestLeaf(conversation, node) {
  for (let depth = 0; depth < 10_000; ++depth) {
    const children = Object.values(conversation.nodes).filter(other => other.parent === node.id);
    if (children.length === 0) break;
    node = children.reduce((a, b) => (b.at > a.at ? b : a));
  }
  return node.id;
}

export function titleOf(conversation) {
  const first = Object.values(conversation.nodes).filter(node => node.role === 'user').sort((a, b) => a.at - b.at)[0];
  const words = first?.content.trim().replace(/\s+/g, ' ') ?? '';
  return words === '' ? 'New conversation' : words.length > 60 ? words.slice(0, 60) + '…' : words;
}

/** A conversation of its own with what was said up to this message. */
export function branchFrom(conversation, node) {
  const branch = newConversation();
  for (const old of pathTo(conversation, node.id)) branch.nodes[old.id] = structuredClone(old);
  branch.leaf = node.id;
  branch.branch = true;
  return branch;
}
