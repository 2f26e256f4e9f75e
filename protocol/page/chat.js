// The conversation that is shown, and the replies that are being streamed, of this one or of others.

import { ApiFailure, chatEvents } from './api.js';
import * as conversations from './conversations.js';
import { element } from './element.js';
import { button, MessageView } from './message_view.js';
import { reportOf, reportOfPart } from './report.js';
import { requestFields, systemOf } from './settings.js';

const kSuggestions = ['Hello, I am Ada and I live in Ljubljana.', 'What is 17 + 25?', 'Tell me a story about a fox.'];
const kSaveEvery = 2000;  // milliseconds, of a reply that grows
const kLongestReply = 2_000_000;  // characters

export class Chat {
  /** `changed` is told when what is kept has changed, `say` gets a line for screen readers, `notify` one that all see,
   *  `refused` an ApiFailure, `context` gives the most tokens that a conversation may have, or 0. */
  constructor(parts, { changed, say, notify, refused, key, context, attachments }) {
    Object.assign(this, { parts, changed, say, notify, refused, key, context, attachments });
    this.streams = new Map();  // of replies that grow, by their message's id
    this.conversation = conversations.newConversation();
    this.views = new Map();  // of the messages that are shown, by id
    this.actions = {
      mayEdit: () => this.isFree(), refresh: () => this.render(), edit: (node, words) => this.edit(node, words),
      regenerate: node => this.regenerate(node), goOn: node => this.goOn(node), branch: node => this.branch(node),
      copy: node => this.copy(node), show: (node, name) => this.show(node, name),
    };
    parts.composer.addEventListener('submit', event => {
      event.preventDefault();
      this.send(parts.text.value);
    });
    parts.text.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send(parts.text.value);
      }
    });
    parts.text.addEventListener('input', () => {
      conversations.keepDraft(this.conversation, parts.text.value);
      this.growField();
    });
    parts.stop.addEventListener('click', () => this.stop());
    // What ends with the page is kept as it is: as a reply that grows.
    addEventListener('pagehide', () => {
      this.leaves = true;
      this.streams.forEach(stream => this.keep(stream.conversation));
    });
    addEventListener('pageshow', () => { this.leaves = false; });
  }

  open(conversation) {
    this.conversation = conversation;
    this.views.clear();
    this.parts.messages.replaceChildren();
    this.parts.text.value = conversations.draftOf(conversation);
    this.growField();
    this.render();
    this.scrollDown();
  }

  get streaming() {
    return this.streamOf(this.conversation);
  }

  streamOf(conversation) {
    return [...this.streams.values()].find(stream => stream.conversation.id === conversation.id);
  }

  /** No reply grows here; else the user is told. */
  isFree() {
    if (this.streaming) this.notify('A reply is being written. Stop it first.');
    return !this.streaming;
  }

  send(words) {
    const files = this.attachments.files;
    if ((words.trim() === '' && files.length === 0) || this.streaming) return;
    this.parts.text.value = '';
    conversations.keepDraft(this.conversation, '');
    this.growField();
    const message = conversations.addMessage(this.conversation, this.conversation.leaf,
      { role: 'user', content: words, ...(files.length > 0 ? { files } : {}) });
    this.attachments.clear();
    this.reply(message);
  }

  stop() {
    this.streaming?.controller.abort();
  }

  /** Another reply to this message, beside those that there are. */
  reply(message) {
    this.begin(conversations.addMessage(this.conversation, message.id, { role: 'assistant', content: '' }));
  }

  /** The same reply, from where it ends. */
  goOn(node) {
    if (!this.isFree()) return;
    for (const field of ['error', 'stopped', 'finish', 'report']) delete node[field];
    this.begin(node, true);
  }

  begin(node, goesOn = false) {
    const conversation = this.conversation;
    const stream = { conversation, node, goesOn, controller: new AbortController(), began: performance.now(), progress: null, timings: null, dirty: false };
    node.growing = true;
    this.streams.set(node.id, stream);
    this.keep(conversation);
    this.render();
    this.scrollDown();
    this.run(stream);
  }

  body({ conversation, node, goesOn }) {
    const messages = conversations.messagesTo(conversation, goesOn ? node.id : node.parent);
    const system = systemOf(conversation);
    if (system.trim() !== '') messages.unshift({ role: 'system', content: system });
    return { ...requestFields(conversation), messages, stream: true, stream_options: { include_usage: true }, return_progress: true,
      timings_per_token: true, prompt_cache_key: conversation.id, ...(goesOn ? { continue_final_message: true } : {}) };
  }

  async run(stream) {
    const { conversation, node, controller } = stream;
    let saved = performance.now();
    try {
      for await (const event of chatEvents(this.body(stream), this.key(), controller.signal)) {
        if (event.prompt_progress) stream.progress = event.prompt_progress;
        if (event.timings) stream.timings = event.timings;
        if (typeof event.model === 'string') node.model = event.model;
        const choice = event.choices?.[0];
        if (choice?.delta) this.take(stream, choice.delta);
        if (choice?.finish_reason) node.finish = choice.finish_reason;
        node.report = reportOf(event) ?? node.report;
        if (node.content.length > kLongestReply) controller.abort();
        this.refreshSoon(stream);
        if (performance.now() - saved > kSaveEvery) {
          saved = performance.now();
          this.keep(conversation);
        }
      }
      this.say('The reply is there.');
    } catch (error) {
      if (this.leaves) return;
      node.report = reportOfPart(stream) ?? node.report;
      if (error.name === 'AbortError') {
        node.stopped = true;
        this.say('Stopped.');
      } else {
        node.error = error.message;
        this.say('The reply failed: ' + error.message);
        if (error instanceof ApiFailure) this.refused(error);
        else console.error(error);
      }
    }
    delete node.growing;
    this.streams.delete(node.id);
    this.keep(conversation);
    if (this.conversation.id === conversation.id) this.render();
  }

  take(stream, delta) {
    const { node } = stream;
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (reasoning) node.reasoning = (node.reasoning ?? '') + reasoning;
    if (delta.content) node.content += delta.content;
    for (const call of delta.tool_calls ?? []) {
      node.content += (call.function?.name ? '\n\n' + call.function.name + ' ' : '') + (call.function?.arguments ?? '');
    }
    if (reasoning || delta.content) stream.first_ms ??= performance.now() - stream.began;
  }

  /** Unless the user has deleted it meanwhile. */
  keep(conversation) {
    if (conversation.deleted) return;
    this.changed(conversation, conversations.save(conversation));
  }

  /** Ends its replies, and keeps nothing of it from now on. */
  forget(conversation) {
    const stream = this.streamOf(conversation);
    const held = stream?.conversation ?? (this.conversation.id === conversation.id ? this.conversation : null);
    if (held) held.deleted = true;
    stream?.controller.abort();
  }

  // -- what is shown

  refreshSoon(stream) {
    if (stream.dirty) return;
    stream.dirty = true;
    requestAnimationFrame(() => {
      stream.dirty = false;
      const view = this.views.get(stream.node.id);
      if (!view || !this.streams.has(stream.node.id)) return;
      const follows = this.atEnd();
      this.updateView(view, stream.node, true);
      if (follows) this.scrollDown();
    });
  }

  updateView(view, node, last) {
    view.update(node, { stream: this.streams.get(node.id), beside: conversations.siblings(this.conversation, node), last, context: this.context() });
  }

  /** What has changed since it was shown last; messages that stay are the nodes that they were. */
  render() {
    const { messages, send, stop, text } = this.parts;
    const path = conversations.pathTo(this.conversation, this.conversation.leaf);
    const follows = this.atEnd();
    const shown = new Set(path.map(node => node.id));
    for (const [id, view] of this.views) {
      if (shown.has(id)) continue;
      view.article.remove();
      this.views.delete(id);
    }
    if (path.length === 0) messages.replaceChildren(this.welcome());
    else messages.querySelector('.welcome')?.remove();
    path.forEach((node, i) => {
      let view = this.views.get(node.id);
      if (!view) {
        view = new MessageView(node, this.actions);
        this.views.set(node.id, view);
      }
      this.updateView(view, node, i + 1 === path.length);
      if (messages.children[i] !== view.article) messages.insertBefore(view.article, messages.children[i] ?? null);
    });
    const busy = this.streaming !== undefined;
    const focused = document.activeElement === (busy ? send : stop);
    send.hidden = busy;
    stop.hidden = !busy;
    if (focused) text.focus();
    if (follows) this.scrollDown();
  }

  welcome() {
    return element('section', { class: 'welcome' }, element('h2', {}, 'What was read once is not read again.'),
      element('p', {}, 'Go on, edit, ask anew, branch: each reply shows how much of its prompt was restored from the cache, and how soon it began.'),
      element('div', { class: 'suggestions' }, ...kSuggestions.map(words => button(words, () => this.send(words), { class: 'suggestion' }))));
  }

  show(node, name) {
    this.conversation.leaf = conversations.latestLeaf(this.conversation, node);
    this.keep(this.conversation);
    this.render();
    this.views.get(node.id)?.focusAction(name);
  }

  regenerate(node) {
    if (this.isFree()) this.reply(this.conversation.nodes[node.parent]);
  }

  edit(node, words) {
    const files = node.files ? { files: node.files } : {};
    this.reply(conversations.addMessage(this.conversation, node.parent, { role: 'user', content: words, ...files }));
    this.parts.text.focus();
  }

  branch(node) {
    const branch = conversations.branchFrom(this.conversation, node);
    this.keep(branch);
    this.open(branch);
    this.changed(branch, true);
    this.say('A new conversation from here.');
    this.parts.text.focus();
  }

  async copy(node) {
    try {
      await navigator.clipboard.writeText(node.content);
      this.notify('Copied.');
    } catch {
      this.notify('The browser does not allow copying.');
    }
  }

  atEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.parts.messages;
    return scrollHeight - scrollTop - clientHeight < 80;
  }

  scrollDown() {
    this.parts.messages.scrollTop = this.parts.messages.scrollHeight;
  }

  growField() {
    const { text } = this.parts;
    text.style.height = 'auto';
    text.style.height = Math.min(text.scrollHeight, 220) + 'px';
  }
}
