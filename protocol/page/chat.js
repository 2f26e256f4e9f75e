// The conversation that is shown, and the replies that are being streamed, of this one or of others.

import { ApiFailure, chatEvents } from './api.js';
import * as conversations from './conversations.js';
import { element, GrowingMarkdown } from './markdown.js';
import { bar, reportNode, reportOf } from './report.js';
import { requestFields, settings } from './settings.js';

const kSuggestions = ['Hello, I am Ada and I live in Ljubljana.', 'What is 17 + 25?', 'Tell me a story about a fox.'];
const kSaveEvery = 2000;  // milliseconds, of a reply that grows
const kLongestReply = 2_000_000;  // characters

const button = (words, action, properties = {}) => {
  const node = element('button', { type: 'button', class: 'quiet small', ...properties }, words);
  node.addEventListener('click', action);
  return node;
};

export class Chat {
  /** `changed` is told when what is kept has changed, `say` gets a line for screen readers, `refused` an ApiFailure. */
  constructor(parts, { changed, say, refused }) {
    this.parts = parts;
    this.changed = changed;
    this.say = say;
    this.refused = refused;
    this.streams = new Map();  // of replies that grow, by their message's id
    this.conversation = conversations.newConversation();
    this.shown = new Map();  // nodes of messages, by id
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
    parts.text.addEventListener('input', () => this.growField());
    parts.stop.addEventListener('click', () => this.stop());
  }

  open(conversation) {
    this.conversation = conversation;
    this.render();
    this.scrollDown();
  }

  get streaming() {
    return [...this.streams.values()].find(stream => stream.conversation.id === this.conversation.id);
  }

  send(words) {
    if (words.trim() === '' || this.streaming) return;
    this.parts.text.value = '';
    this.growField();
    const message = conversations.addMessage(this.conversation, this.conversation.leaf, { role: 'user', content: words });
    this.reply(message);
  }

  stop() {
    this.streaming?.controller.abort();
  }

  /** Another reply to this message, beside those that there are. */
  reply(message) {
    const conversation = this.conversation;
    const node = conversations.addMessage(conversation, message.id, { role: 'assistant', content: '' });
    const stream = { conversation, node, controller: new AbortController(), began: performance.now(), progress: null, dirty: false };
    this.streams.set(node.id, stream);
    this.keep(conversation);
    this.render();
    this.scrollDown();
    this.run(stream);
  }

  body(conversation, node) {
    const messages = conversations.pathTo(conversation, node.parent).map(({ role, content, reasoning }) =>
      (reasoning ? { role, content, reasoning_content: reasoning } : { role, content }));
    if (settings.system.trim() !== '') messages.unshift({ role: 'system', content: settings.system });
    return { ...requestFields(), messages, stream: true, stream_options: { include_usage: true }, return_progress: true,
      prompt_cache_key: conversation.id };
  }

  async run(stream) {
    const { conversation, node, controller } = stream;
    let saved = performance.now();
    try {
      for await (const event of chatEvents(this.body(conversation, node), settings.key, controller.signal)) {
        if (event.prompt_progress) stream.progress = event.prompt_progress;
        if (typeof event.model === 'string') node.model = event.model;
        const choice = event.choices?.[0];
        if (choice?.delta) this.take(node, choice.delta);
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
    this.streams.delete(node.id);
    this.keep(conversation);
    if (this.conversation.id === conversation.id) this.render();
  }

  take(node, delta) {
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (reasoning) node.reasoning = (node.reasoning ?? '') + reasoning;
    if (delta.content) node.content += delta.content;
    for (const call of delta.tool_calls ?? []) {
      node.content += (call.function?.name ? '\n\n' + call.function.name + ' ' : '') + (call.function?.arguments ?? '');
    }
  }

  keep(conversation) {
    this.changed(conversation, conversations.save(conversation));
  }

  // -- what is shown

  refreshSoon(stream) {
    if (stream.dirty) return;
    stream.dirty = true;
    requestAnimationFrame(() => {
      stream.dirty = false;
      if (this.streams.has(stream.node.id)) this.refresh(stream);
    });
  }

  refresh(stream) {
    const shown = this.shown.get(stream.node.id);
    if (!shown) return;
    const follows = this.atEnd();
    const { node, progress } = stream;
    if (node.reasoning && !shown.reasoning) this.addReasoning(shown, node, true);
    if (shown.reasoning) shown.reasoning.update(node.reasoning);
    shown.markdown.update(node.content);
    const waits = node.content === '' && !node.reasoning;
    shown.progress.hidden = !waits;
    if (waits) {
      const words = progress ? `Reading the prompt: ${progress.processed} of ${progress.total} tokens, ${progress.cache} restored` : 'Waiting for the first token';
      shown.progress.replaceChildren(element('span', {}, words), ...(progress ? [bar([['restored', progress.cache, ''],
        ['computed', progress.processed - progress.cache, ''], ['rest', progress.total - progress.processed, '']], words)] : []));
    }
    if (follows) this.scrollDown();
  }

  render() {
    const path = conversations.pathTo(this.conversation, this.conversation.leaf);
    const follows = this.atEnd();
    this.shown.clear();
    this.parts.messages.replaceChildren(...(path.length === 0 ? [this.welcome()] : path.map(node => this.message(node))));
    const busy = this.streaming !== undefined;
    this.parts.send.hidden = busy;
    this.parts.stop.hidden = !busy;
    if (follows) this.scrollDown();
  }

  welcome() {
    return element('section', { class: 'welcome' }, element('h2', {}, 'What was read once is not read again.'),
      element('p', {}, 'Go on, edit, ask anew, branch: each reply shows how much of its prompt was restored from the cache, and how soon it began.'),
      element('div', { class: 'suggestions' }, ...kSuggestions.map(words => button(words, () => this.send(words), { class: 'suggestion' }))));
  }

  message(node) {
    const stream = this.streams.get(node.id);
    const content = element('div', { class: 'content' });
    const article = element('article', { class: 'message ' + node.role, 'aria-label': node.role === 'user' ? 'You' : 'Reply', 'data-id': node.id });
    const shown = { article, content, markdown: new GrowingMarkdown(content), progress: element('div', { class: 'progress' }), reasoning: null };
    this.shown.set(node.id, shown);
    article.append(shown.progress, content);
    shown.progress.hidden = true;
    if (node.role === 'user') {
      content.textContent = node.content;
      article.append(this.actions(node));
      return article;
    }
    if (node.reasoning) this.addReasoning(shown, node, false);
    if (stream) {
      article.setAttribute('aria-busy', 'true');
      this.refresh(stream);
      shown.progress.hidden = node.content !== '' || Boolean(node.reasoning);
      return article;
    }
    shown.markdown.update(node.content, true);
    if (node.stopped) article.append(element('p', { class: 'aside' }, 'Stopped.'));
    if (node.finish === 'length') article.append(element('p', { class: 'aside' }, 'Cut off: it had as many tokens as it may.'));
    if (node.error) article.append(element('p', { class: 'failure' }, node.error));
    article.append(this.actions(node));
    if (node.report) article.append(reportNode(node.report));
    return article;
  }

  addReasoning(shown, node, grows) {
    const words = element('div', { class: 'content' });
    const markdown = new GrowingMarkdown(words);
    shown.article.insertBefore(element('details', { class: 'reasoning' }, element('summary', {}, 'Reasoning'), words), shown.content);
    if (!grows) markdown.update(node.reasoning, true);
    shown.reasoning = markdown;
  }

  actions(node) {
    const group = element('div', { class: 'actions', role: 'group', 'aria-label': 'Of this message' });
    const beside = conversations.siblings(this.conversation, node);
    if (beside.length > 1) {
      const at = beside.indexOf(node);
      const turn = (to, words, sign) => button(sign, () => this.show(beside[to]), { 'aria-label': words, disabled: to < 0 || to >= beside.length });
      group.append(element('span', { class: 'ways' }, turn(at - 1, 'The one before', '‹'),
        element('span', {}, `${at + 1} / ${beside.length}`), turn(at + 1, 'The next one', '›')));
    }
    const busy = this.streaming !== undefined;
    if (node.role === 'user') {
      group.append(button('Edit', () => this.edit(node), { disabled: busy }));
    } else {
      group.append(button('Regenerate', () => this.regenerate(node), { disabled: busy }));
    }
    group.append(button('Branch', () => this.branch(node), { title: 'A conversation of its own from here' }),
      button('Copy', event => this.copy(node, event.currentTarget)));
    return group;
  }

  show(node) {
    this.conversation.leaf = conversations.latestLeaf(this.conversation, node);
    this.keep(this.conversation);
    this.render();
    this.shown.get(node.id)?.article.querySelector('.ways button:not(:disabled)')?.focus();
  }

  regenerate(node) {
    if (this.streaming) return;
    this.reply(this.conversation.nodes[node.parent]);
  }

  branch(node) {
    const branch = conversations.branchFrom(this.conversation, node);
    this.keep(branch);
    this.open(branch);
    this.changed(branch, true);
    this.say('A new conversation from here.');
    this.parts.text.focus();
  }

  edit(node) {
    const { article, content } = this.shown.get(node.id);
    const field = element('textarea', { class: 'edit', value: node.content, 'aria-label': 'Edit the message', rows: Math.min(12, node.content.split('\n').length + 1) });
    const leave = () => {
      this.render();
      this.shown.get(node.id)?.article.querySelector('.actions button')?.focus();
    };
    const send = () => {
      if (field.value.trim() === '' || this.streaming) return;
      const message = conversations.addMessage(this.conversation, node.parent, { role: 'user', content: field.value });
      this.reply(message);
      this.parts.text.focus();
    };
    field.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        leave();
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    content.replaceWith(field);
    article.querySelector('.actions').replaceChildren(button('Send', send, { class: 'small' }), button('Cancel', leave));
    field.focus();
  }

  async copy(node, from) {
    try {
      await navigator.clipboard.writeText(node.content);
      from.textContent = 'Copied';
    } catch {
      from.textContent = 'Not allowed';
    }
    setTimeout(() => { from.textContent = 'Copy'; }, 1500);
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
