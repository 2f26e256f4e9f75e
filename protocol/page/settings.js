// What the user has set. The API key outlasts the tab only where that was asked for.

import { local, session } from './storage.js';

const kKey = 'reprise.settings';
const kFields = ['model', 'system', 'temperature', 'top_p', 'max_tokens', 'seed', 'thinking', 'theme'];

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

function saveSettings() {
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

/** What a request says beside its messages. */
export function requestFields() {
  const out = {};
  if (settings.model) out.model = settings.model;
  for (const field of ['temperature', 'top_p', 'max_tokens', 'seed']) {
    const number = Number(settings[field]);
    if (settings[field] !== '' && Number.isFinite(number)) out[field] = number;
  }
  if (settings.thinking) out.chat_template_kwargs = { enable_thinking: settings.thinking === 'on' };
  return out;
}

export function showModels(select, models) {
  select.replaceChildren(new Option('The first that is served', ''),
    ...models.map(model => new Option(model.state && model.state !== 'ready' ? `${model.id} (${model.problem || model.state})` : model.id, model.id)));
  if (settings.model && !models.some(model => model.id === settings.model)) {
    select.append(new Option(settings.model + ' (not served)', settings.model));
  }
  select.value = settings.model;
}

/** Binds the dialog; `changed` is called when it closes. */
export function bindSettings(dialog, changed) {
  const form = dialog.querySelector('form');
  const fields = () => [...form.elements].filter(element => element.name in settings);
  const take = () => {
    for (const element of fields()) {
      if (element.type === 'checkbox') settings[element.name] = element.checked;
      else if (element.validity.valid) settings[element.name] = element.name === 'system' ? element.value : element.value.trim();
    }
    applyTheme();
  };
  form.addEventListener('change', take);
  dialog.addEventListener('close', () => {
    take();
    saveSettings();
    changed();
  });
  return () => {
    for (const element of fields()) {
      if (element.type === 'checkbox') element.checked = settings[element.name];
      else element.value = settings[element.name];
    }
    dialog.showModal();
  };
}
