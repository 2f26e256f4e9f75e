// The page: puts its parts together.

import { Attachments } from './attachments.js';
import { CacheView } from './cache.js';
import { Chat } from './chat.js';
import * as conversations from './conversations.js';
import { Drawer } from './drawer.js';
import { Models } from './models.js';
import { contextWords } from './report.js';
import { bindSettings, loadSettings, saveSettings, settingOf, settings } from './settings.js';
import { local, session } from './storage.js';

const kCurrent = 'reprise.current';
const kToastTime = 6000;  // milliseconds, of a note that offers nothing
const byId = id => document.getElementById(id);
const narrow = matchMedia('(max-width: 55rem)');

loadSettings();

// -- what is said

/** To screen readers. */
function say(words) {
  const status = byId('status');
  status.textContent = status.textContent === words ? words + '\u00a0' : words;  // else it is not said twice
}

let toastTimer = null;
/** To all; with `undo`, until it is taken or the next note comes. */
function notify(words, undo) {
  clearTimeout(toastTimer);
  byId('toast-words').textContent = words;
  byId('toast-undo').hidden = undo === undefined;
  byId('toast-undo').onclick = () => {
    hideToast();
    undo();
  };
  byId('toast').hidden = false;
  say(words);
  if (undo) byId('toast-undo').focus();
  else toastTimer = setTimeout(hideToast, kToastTime);
}
function hideToast() {
  clearTimeout(toastTimer);
  byId('toast').hidden = true;
}
byId('toast-close').addEventListener('click', () => {
  hideToast();
  byId('composer-text').focus();
});
addEventListener('notify', event => notify(event.detail));

// -- views

const cacheView = new CacheView(byId('cache-view'), () => models.refresh());

function show(view) {
  const cache = view === 'cache';
  byId('chat-view').hidden = cache;
  byId('cache-view').hidden = !cache;
  for (const [tab, here] of [['tab-chat', !cache], ['tab-cache', cache]]) {
    if (here) byId(tab).setAttribute('aria-current', 'page');
    else byId(tab).removeAttribute('aria-current');
  }
  if (cache) cacheView.open();
  else cacheView.close();
}
byId('tab-chat').addEventListener('click', () => show('chat'));
byId('tab-cache').addEventListener('click', () => show('cache'));

// -- the drawer

function setDrawer(open) {
  document.body.classList.toggle('drawer-open', open);
  byId('drawer-button').setAttribute('aria-expanded', String(open));
  byId('drawer').inert = !open;
}
byId('drawer-button').addEventListener('click', () => {
  const open = byId('drawer-button').getAttribute('aria-expanded') !== 'true';
  setDrawer(open);
  if (open) byId('new-chat').focus();
});
narrow.addEventListener('change', () => setDrawer(!narrow.matches));
setDrawer(!narrow.matches);

function choose(conversation) {
  // One whose reply still grows is the one that it grows in.
  const growing = [...chat.streams.values()].find(stream => stream.conversation.id === conversation.id);
  chat.open(growing?.conversation ?? conversation);
  models.draw();
  remember();
  list();
  show('chat');
  if (narrow.matches) setDrawer(false);
  byId('composer-text').focus();
}

function remember() {
  try {
    session.setItem(kCurrent, chat.conversation.id);
    local.setItem(kCurrent, chat.conversation.id);
  } catch { /* a reload begins anew then */ }
}
byId('new-chat').addEventListener('click', () => choose(conversations.newConversation()));
addEventListener('storage', () => list());

// -- chat

function banner(words) {
  byId('banner').textContent = words;
  byId('banner').hidden = words === '';
}

const attachments = new Attachments({ list: byId('attached'), button: byId('attach'), input: byId('attach-file'), field: byId('composer-text') }, notify);

const chat = new Chat({ messages: byId('messages'), composer: byId('composer'), text: byId('composer-text'), send: byId('send'), stop: byId('stop') }, {
  changed(conversation, kept) {
    if (conversation.id === chat.conversation.id) remember();
    if (!kept) banner('This browser does not keep the conversation: there is no room for it.');
    list();
  },
  say, notify, attachments,
  key: () => settings.key,
  context: () => models.context(),
  refused(error) {
    if (error.status === 401) askForKey();
    else if (error.status === 404 || error.status === 503) models.refresh();
  },
});

const drawer = new Drawer({ list: byId('conversation-list'), search: byId('search'), exporting: byId('export'), importing: byId('import'), file: byId('import-file') },
  { chat, choose, notify });

/** What depends on which conversation there is, and on how long it is. */
function list() {
  drawer.draw();
  const last = conversations.pathTo(chat.conversation, chat.conversation.leaf).findLast(node => node.report)?.report;
  byId('context').textContent = last ? contextWords(last.prompt + last.reply, models.context()) : '';
  document.title = chat.conversation.leaf === null ? 'Reprise' : conversations.titleOf(chat.conversation) + ' – Reprise';
}

function askForKey() {
  banner(settings.key ? 'The server does not know this API key.' : 'This server wants an API key.');
  openSettings();
  byId('settings').querySelector('[name=key]').focus();
}

addEventListener('keydown', event => {
  if (event.key !== 'Escape' || byId('settings').open) return;
  if (narrow.matches && document.body.classList.contains('drawer-open')) {
    setDrawer(false);
    byId('drawer-button').focus();
  } else if (chat.streaming || byId('toast').hidden) {
    chat.stop();
  } else {
    byId('toast-close').click();
  }
});

// -- models

const models = new Models({ select: byId('model'), notice: byId('model-notice') }, {
  key: () => settings.key,
  chosen: () => settingOf(chat.conversation, 'model'),
  choose(id) {
    settings.model = id;
    saveSettings();
    chat.conversation.settings = { ...chat.conversation.settings, model: id };
    if (chat.conversation.leaf !== null) chat.keep(chat.conversation);
  },
  failed(error) {
    if (error === null) banner('');
    else if (error.status === 401) askForKey();
    else banner(error.message);
  },
  notify,
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) models.refresh(); });

// -- settings

const openSettings = bindSettings(byId('settings'), () => chat.conversation, ownChanged => {
  if (ownChanged && chat.conversation.leaf !== null) chat.keep(chat.conversation);
  models.refresh();
  cacheView.refresh();
});
byId('settings-button').addEventListener('click', openSettings);
byId('forget').addEventListener('click', () => {
  if (!confirm('Delete all conversations from this browser?')) return;
  for (const stream of [...chat.streams.values()]) chat.forget(stream.conversation);
  conversations.removeAll();
  choose(conversations.newConversation());
  byId('settings').close();
});

// -- the beginning

const last = session.getItem(kCurrent) ?? local.getItem(kCurrent);
chat.open((last && conversations.load(last)) || conversations.newConversation());
models.refresh().then(list);
list();
if (!narrow.matches) byId('composer-text').focus();
