// What the user has set: for all conversations, and for one of them what differs there (conversation.settings). The API
// key outlasts the tab only where that was asked for.

import { element } from './element.js';
import { local, session } from './storage.js';

const kKey = 'reprise.settings';

// name, words, and what its field has: min, max, step, or the text of a hint
const kSampling = [
  ['temperature', 'Temperature', { min: 0, max: 100, step: 0.05 }],
  ['top_p', 'Top p', { min: 0.01, max: 1, step: 0.01 }],
  ['max_tokens', 'Tokens of a reply', { min: 1, step: 1, hint: 'as many as fit' }],
  ['seed', 'Seed', { min: 0, step: 1, hint: 'another each time' }],
];
const kMoreSampling = [
  ['top_k', 'Top k', { min: 0, step: 1 }],
  ['min_p', 'Min p', { min: 0, max: 1, step: 0.01 }],
  ['typical_p', 'Typical p', { min: 0.01, max: 1, step: 0.01 }],
  ['top_n_sigma', 'Top n sigma', { min: -1, step: 0.1 }],
  ['repeat_penalty', 'Repeat penalty', { min: 0.01, step: 0.01 }],
  ['repeat_last_n', 'Repeat penalty looks at', { min: -1, step: 1, hint: 'tokens' }],
  ['presence_penalty', 'Presence penalty', { min: -2, max: 2, step: 0.05 }],
  ['frequency_penalty', 'Frequency penalty', { min: -2, max: 2, step: 0.05 }],
  ['dry_multiplier', 'DRY multiplier', { min: 0, step: 0.05 }],
  ['dry_base', 'DRY base', { min: 1, step: 0.05 }],
  ['dry_allowed_length', 'DRY allowed length', { min: 1, step: 1 }],
  ['dry_penalty_last_n', 'DRY looks at', { min: -1, step: 1, hint: 'tokens' }],
  ['xtc_probability', 'XTC probability', { min: 0, max: 1, step: 0.01 }],
  ['xtc_threshold', 'XTC threshold', { min: 0, max: 1, step: 0.01 }],
];
const kNumbers = [...kSampling, ...kMoreSampling].map(([name]) => name);
const kOfConversation = ['model', 'system', 'stop', 'thinking', ...kNumbers];  // what one may have for itself
const kFields = [...kOfConversation, 'theme'];

function stored(storage, key) {
  try {
    const value = JSON.parse(storage.getItem(key));
    return value !== null && typeof value === 'object' ? value : {};
  } catch {
    return {};
  }
}

export const settings = { key: '', keep_key: false };

export function loadSettings() {
  const kept = stored(local, kKey);
  for (const field of kFields) settings[field] = typeof kept[field] === 'string' ? kept[field] : '';
  settings.keep_key = typeof kept.key === 'string' && kept.key !== '';
  const forTab = stored(session, kKey).key;
  settings.key = settings.keep_key ? kept.key : typeof forTab === 'string' ? forTab : '';
  applyTheme();
}

export function saveSettings() {
  const kept = Object.fromEntries(kFields.map(field => [field, settings[field]]));
  if (settings.keep_key) kept.key = settings.key;
  try {
    local.setItem(kKey, JSON.stringify(kept));
    session.setItem(kKey, JSON.stringify(settings.keep_key ? {} : { key: settings.key }));
  } catch { /* they hold for this page alone then */ }
}

function applyTheme() {
  if (settings.theme) document.documentElement.dataset.theme = settings.theme;
  else delete document.documentElement.dataset.theme;
}

/** A field as it holds for the conversation. */
export const settingOf = (conversation, field) => conversation.settings?.[field] || settings[field];
export const systemOf = conversation => settingOf(conversation, 'system');

/** What a request says beside its messages. */
export function requestFields(conversation) {
  const out = {};
  const said = field => settingOf(conversation, field);
  if (said('model')) out.model = said('model');
  for (const field of kNumbers) {
    const number = Number(said(field));
    if (said(field) !== '' && Number.isFinite(number)) out[field] = number;
  }
  const stop = said('stop').split('\n').filter(line => line !== '');
  if (stop.length > 0) out.stop = stop;
  if (said('thinking')) out.chat_template_kwargs = { enable_thinking: said('thinking') === 'on' };
  return out;
}

const numberField = ([name, words, { hint, ...limits }]) => {
  const node = element('input', { name, type: 'number', inputMode: 'decimal', ...limits });
  node.dataset.hint = hint ?? 'the model’s own';
  return element('label', {}, words + ' ', node);
};

/** Binds the dialog; `current` gives the conversation that is shown, `changed` is called when the dialog closes and is told
 *  whether that conversation's own settings are others now. Gives what opens it. */
export function bindSettings(dialog, current, changed) {
  const form = dialog.querySelector('form');
  form.querySelector('#sampling').prepend(...kSampling.map(numberField));
  form.querySelector('#more-sampling').append(...kMoreSampling.map(numberField));
  const scope = form.querySelector('#settings-scope');
  const common = form.querySelector('#settings-common');
  const fields = () => [...form.elements].filter(element => element.name in settings);
  let own = null;  // settings of the conversation, while these are shown
  const put = () => {
    common.hidden = own !== null;
    for (const node of fields()) {
      const field = node.name;
      if (node.type === 'checkbox') node.checked = settings[field];
      else node.value = own && kOfConversation.includes(field) ? own[field] ?? '' : settings[field];
      if (node.dataset.hint) node.placeholder = own && settings[field] !== '' ? settings[field] : node.dataset.hint;
      if (field === 'system') node.placeholder = own && settings.system !== '' ? settings.system : 'None';
    }
  };
  const take = () => {
    for (const node of fields()) {
      const field = node.name;
      if (node.type === 'checkbox') {
        settings[field] = node.checked;
      } else if (node.validity.valid) {
        const value = ['system', 'stop'].includes(field) ? node.value : node.value.trim();
        if (!own || !kOfConversation.includes(field)) settings[field] = value;
        else if (value === '') delete own[field];
        else own[field] = value;
      }
    }
    applyTheme();
  };
  scope.addEventListener('change', event => {
    event.stopPropagation();  // the fields are still those of the other scope
    take();
    own = scope.value === 'own' ? current().settings ??= {} : null;
    put();
  });
  form.addEventListener('change', take);
  let before = '';
  const written = () => JSON.stringify(current().settings ?? {});
  dialog.addEventListener('close', () => {
    take();
    own = null;
    if (current().settings && Object.keys(current().settings).length === 0) delete current().settings;
    saveSettings();
    changed(written() !== before);
  });
  return () => {
    before = written();
    own = current().settings ?? null;
    scope.value = own ? 'own' : 'all';
    put();
    dialog.showModal();
  };
}
