// The page: puts its parts together.

import { getJson } from './api.js';
import { CacheView } from './cache.js';
import { Chat } from './chat.js';
import * as conversations from './conversations.js';
import { element } from './markdown.js';
import { local, session } from './storage.js';
import { bindSettings, loadSettings, settings, showModels } from './settings.js';

const kCurrent = 'reprise.current';
const byId = id => document.getElementById(id);
const say = words => { byId('status').textContent = words; };
const narrow = matchMedia('(max-width: 55rem)');

let models = [];

loadSettings();

// -- views

const cacheView = new CacheView(byId('cache-view'));

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

const drawer = byId('drawer');
function setDrawer(open) {
  document.body.classList.toggle('drawer-open', open);
  byId('drawer-button').setAttribute('aria-expanded', String(open));
  drawer.inert = !open;
}
byId('drawer-button').addEventListener('click', () => {
  const open = byId('drawer-button').getAttribute('aria-expanded') !== 'true';
  setDrawer(open);
  if (open) byId('new-chat').focus();
});
narrow.addEventListener('change', () => setDrawer(!narrow.matches));
setDrawer(!narrow.matches);

function listConversations() {
  const list = byId('conversation-list');
  list.replaceChildren(...conversations.all().map(conversation => {
    const title = conversations.titleOf(conversation);
    const here = conversation.id === chat.conversation.id;
    const open = element('button', { type: 'button', class: 'open', title }, conversation.branch ? '↳ ' + title : title);
    if (here) open.setAttribute('aria-current', 'true');
    open.addEventListener('click', () => choose(conversations.load(conversation.id) ?? conversations.newConversation()));
    const remove = element('button', { type: 'button', class: 'quiet icon remove', 'aria-label': 'Delete: ' + title }, '×');
    remove.addEventListener('click', () => {
      conversations.remove(conversation.id);
      if (here) choose(conversations.newConversation());
      listConversations();
      byId('new-chat').focus();
    });
    return element('li', {}, open, remove);
  }));
}

function choose(conversation) {
  // One whose reply still grows is the one that it grows in.
  const growing = [...chat.streams.values()].find(stream => stream.conversation.id === conversation.id);
  chat.open(growing?.conversation ?? conversation);
  remember();
  listConversations();
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
addEventListener('storage', listConversations);

// -- chat

function banner(words) {
  byId('banner').textContent = words;
  byId('banner').hidden = words === '';
}

const chat = new Chat({ messages: byId('messages'), composer: byId('composer'), text: byId('composer-text'), send: byId('send'), stop: byId('stop') }, {
  changed(conversation, kept) {
    if (conversation.id === chat.conversation.id) remember();
    if (!kept) banner('This browser does not keep the conversation: there is no room for it.');
    listConversations();
  },
  say,
  refused(error) {
    if (error.status === 401) askForKey();
  },
});

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
  } else {
    chat.stop();
  }
});

// -- settings

async function loadModels() {
  try {
    models = (await getJson('v1/models', settings.key)).data ?? [];
    banner('');
  } catch (error) {
    models = [];
    if (error.status === 401) askForKey();
    else banner(error.message);
  }
  showModels(byId('settings').querySelector('[name=model]'), models);
  const chosen = models.find(model => model.id === settings.model) ?? models[0];
  byId('model-name').textContent = chosen ? chosen.id : '';
}

const openSettings = bindSettings(byId('settings'), () => {
  loadModels();
  cacheView.refresh();
});
byId('settings-button').addEventListener('click', openSettings);
byId('forget').addEventListener('click', () => {
  if (!confirm('Delete all conversations from this browser?')) return;
  conversations.removeAll();
  choose(conversations.newConversation());
  byId('settings').close();
});

// -- the beginning

const last = session.getItem(kCurrent) ?? local.getItem(kCurrent);
chat.open((last && conversations.load(last)) || conversations.newConversation());
listConversations();
loadModels();
if (!narrow.matches) byId('composer-text').focus();
