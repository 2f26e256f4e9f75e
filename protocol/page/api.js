// What the page asks of its server. Paths are relative to where the page came from, so that a proxy may put it anywhere.

const base = new URL('../', import.meta.url);

export class ApiFailure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(key, json) {
  const out = {};
  if (json) out['Content-Type'] = 'application/json';
  if (key) out.Authorization = 'Bearer ' + key;
  return out;
}

async function failure(response) {
  let message = response.statusText || 'status ' + response.status;
  try {
    const body = await response.json();
    const error = body.error ?? body;
    if (typeof error.message === 'string') message = error.message;
  } catch { /* not JSON: the status says enough */ }
  return new ApiFailure(response.status, message);
}

async function reach(path, options) {
  try {
    return await fetch(new URL(path, base), { cache: 'no-store', credentials: 'omit', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiFailure(0, 'The server cannot be reached.');
  }
}

export async function getJson(path, key) {
  const response = await reach(path, { headers: headers(key, false) });
  if (!response.ok) throw await failure(response);
  return response.json();
}

export async function postJson(path, body, key) {
  const response = await reach(path, { method: 'POST', headers: headers(key, true), body: JSON.stringify(body) });
  if (!response.ok) throw await failure(response);
  return response.json();
}

function cutOff(error) {
  throw error.name === 'AbortError' ? error : new ApiFailure(0, 'The connection ended before the reply did.');
}

/** The events of a streamed chat, one JSON value each. Ends with the stream; throws what the server says went wrong. */
export async function* chatEvents(body, key, signal) {
  const response = await reach('chat/completions', {
    method: 'POST', headers: headers(key, true), body: JSON.stringify(body), signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(cutOff);
      if (done) cutOff(new Error('no more'));
      pending += value;
      const lines = pending.split('\n');
      pending = lines.pop();
      for (const line of lines) {
        if (!line.startsWith('data:')) continue;
        const data = line.slice(5).trim();
        if (data === '[DONE]') return;
        const event = JSON.parse(data);
        if (event.error) throw new ApiFailure(500, event.error.message ?? 'The server failed.');
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
