// Conversations, kept in the browser. Each is a tree of messages: an edited message, or another reply, is a sibling of the
// one before it, and `leaf` says which path is shown. `title` and `settings` are there where the user has given some.
//
// Bounds: kMost conversations and kMostCharacters in all; those not used for longest go first.

import { keysOf, local } from './storage.js';

const kMost = 60;
const kMostCharacters = 3_000_000;
const kLongestTitle = 60;
const kPrefix = 'reprise.chat.';
const kDraftPrefix = 'reprise.draft.';
const kFormat = 'reprise-conversations';

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
export function remove(id) {
  local.removeItem(kPrefix + id);
  local.removeItem(kDraftPrefix + id);
}
export const removeAll = () => keysOf(local).filter(key => key.startsWith(kPrefix) || key.startsWith(kDraftPrefix))
  .forEach(key => local.removeItem(key));

/** Keeps it; others may go for it. False: it is too large, or the browser keeps nothing. */
export function save(conversation) {
  conversation.used = Date.now();
  return put(conversation);
}

/** Keeps it as it is: the time of its last use stays. */
export function put(conversation) {
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

// -- drafts: what is written and not sent

const draftKey = conversation => kDraftPrefix + (conversation.leaf === null ? 'new' : conversation.id);

export const draftOf = conversation => local.getItem(draftKey(conversation)) ?? '';

export function keepDraft(conversation, words) {
  try {
    if (words === '') local.removeItem(draftKey(conversation));
    else local.setItem(draftKey(conversation), words);
  } catch { /* it lasts as long as the page then */ }
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

/** The end of the path that was taken last from this message on. */
export function latestLeaf(conversation, node) {
  for (let depth = 0; depth < 10_000; ++depth) {
    const children = Object.values(conversation.nodes).filter(other => other.parent === node.id);
    if (children.length === 0) break;
    node = children.reduce((a, b) => (b.at > a.at ? b : a));
  }
  return node.id;
}

/** As the user named it, else the first message of the path that is shown. */
export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = pathTo(conversation, conversation.leaf).find(node => node.role === 'user');
  const words = (first?.content.trim() || first?.files?.[0]?.name || '').replace(/\s+/g, ' ');
  return words === '' ? 'New conversation' : words.length > kLongestTitle ? words.slice(0, kLongestTitle) + '…' : words;
}

/** An empty title is that of the first message again. */
export function rename(conversation, title) {
  const words = title.trim().replace(/\s+/g, ' ').slice(0, 2 * kLongestTitle);
  if (words === '') delete conversation.title;
  else conversation.title = words;
}

/** Whether the words are in its title or its messages, in either case of letters. */
export function mentions(conversation, words) {
  const wanted = words.trim().toLowerCase();
  return wanted === '' || titleOf(conversation).toLowerCase().includes(wanted) ||
    Object.values(conversation.nodes).some(node => node.content.toLowerCase().includes(wanted));
}

/** A conversation of its own with what was said up to this message. */
export function branchFrom(conversation, node) {
  const branch = newConversation();
  for (const old of pathTo(conversation, node.id)) branch.nodes[old.id] = structuredClone(old);
  branch.leaf = node.id;
  branch.branch = true;
  if (conversation.settings) branch.settings = structuredClone(conversation.settings);
  return branch;
}

// -- what a request sends

/** The reply says something, or is known to be whole. Others are not sent: a model takes them for its own empty turns. */
const isSaid = node => node.content.trim() !== '' || (node.finish === 'stop' && !node.error);

const fenceFor = text => '`'.repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map(run => run.length + 1)));

/** A message with its attached files before its words. */
function wordsOf(node) {
  const files = (node.files ?? []).map(({ name, text }) => {
    const fence = fenceFor(text);
    return `${name}:\n${fence}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}`;
  });
  return [...files, ...(node.content === '' ? [] : [node.content])].join('\n\n');
}

/** The messages of a request whose last one is `id`, none of them empty, and no two of the user one after the other. */
export function messagesTo(conversation, id) {
  const out = [];
  for (const node of pathTo(conversation, id)) {
    if (node.role === 'assistant') {
      if (isSaid(node)) {
        out.push(node.reasoning ? { role: node.role, content: node.content, reasoning_content: node.reasoning } :
          { role: node.role, content: node.content });
      }
    } else if (out.at(-1)?.role === 'user') {
      out.at(-1).content += '\n\n' + wordsOf(node);
    } else {
      out.push({ role: node.role, content: wordsOf(node) });
    }
  }
  return out;
}

// -- as a file

export const exported = conversations => JSON.stringify({ format: kFormat, version: 1, conversations }, null, 1);

const isPlain = value => value !== null && typeof value === 'object' && !Array.isArray(value);
const text = value => (typeof value === 'string' ? value : '');

function cleanReport(report) {
  if (!isPlain(report)) return undefined;
  return Object.fromEntries(Object.entries(report).filter(([key, value]) =>
    (['reason', 'from', 'tier'].includes(key) ? typeof value === 'string' : ['number', 'boolean'].includes(typeof value))));
}

function cleanNode(id, node, nodes) {
  if (!isPlain(node) || !['user', 'assistant'].includes(node.role) || typeof node.content !== 'string') return null;
  if (node.parent !== null && !Object.hasOwn(nodes, node.parent)) return null;
  const out = { id, parent: node.parent, at: Number.isFinite(node.at) ? node.at : 0, role: node.role, content: node.content };
  for (const field of ['reasoning', 'model', 'finish', 'error']) if (text(node[field]) !== '') out[field] = node[field];
  for (const field of ['stopped', 'growing']) if (node[field] === true) out[field] = true;
  const report = cleanReport(node.report);
  if (report) out.report = report;
  if (Array.isArray(node.files)) out.files = node.files.filter(isPlain).map(file => ({ name: text(file.name), text: text(file.text) }));
  return out;
}

/** Of something that was read from a file: what is known of a conversation, or null. */
function clean(value) {
  if (!isConversation(value) || !isPlain(value.nodes)) return null;
  const out = { id: newId(), used: Number.isFinite(value.used) ? value.used : Date.now(), leaf: value.leaf, nodes: {} };
  for (const [id, node] of Object.entries(value.nodes)) {
    out.nodes[id] = cleanNode(id, node, value.nodes);
    if (out.nodes[id] === null) return null;
  }
  const roots = new Set();  // whose way to the first message is known to have an end
  for (let node of Object.values(out.nodes)) {
    const way = new Set();
    for (; node && !roots.has(node.id); node = out.nodes[node.parent]) {
      if (way.has(node.id)) return null;
      way.add(node.id);
    }
    way.forEach(id => roots.add(id));
  }
  if (text(value.title) !== '') rename(out, value.title);
  if (value.branch === true) out.branch = true;
  if (isPlain(value.settings)) {
    out.settings = Object.fromEntries(Object.entries(value.settings).filter(([, held]) => typeof held === 'string'));
  }
  return out;
}

/** The conversations of a file, with ids of their own. Throws an Error that says what is wrong with it. */
export function imported(words) {
  let value;
  try {
    value = JSON.parse(words);
  } catch {
    throw new Error('the file is not JSON');
  }
  if (!isPlain(value) || value.format !== kFormat || !Array.isArray(value.conversations)) {
    throw new Error('the file has no conversations of Reprise');
  }
  const out = value.conversations.map(clean);
  const wrong = out.indexOf(null);
  if (wrong >= 0) throw new Error(`conversation ${wrong + 1} of the file cannot be read`);
  return out;
}
