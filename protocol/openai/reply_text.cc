#include "protocol/openai/reply_text.h"

#include <cmath>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/lossy_text.h"
#include "protocol/api/timings.h"

namespace reprise::protocol::openai {
namespace {

constexpr double kLeastLogprob = -9999.0;  // for a token that cannot be: JSON has no -inf

void append_ms(std::string& out, double value) {
  append_json_double(out, std::round(value * 1000) / 1000, false);
}

void append_logprob(std::string& out, double value) {
  append_json_double(out, std::isfinite(value) ? value : kLeastLogprob, false);
}

/// Completions name a token by its text alone, so one that is not text is spelled out.
void append_token_name(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += "\\x";
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  append_json_string(out, name);
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

void append_chat_token(std::string& out, std::string_view bytes, double logprob) {
  out += "{\"token\":";
  append_lossy_string(out, bytes);
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_bytes(out, bytes);
}

template <class Items, class Append>
void append_list(std::string& out, const Items& items, Append append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out += ',';
    append(item);
  }
  out += ']';
}

}  // namespace

ReplyHead reply_head(TextKind kind, const std::string& id, const Admitted& admitted, std::int64_t now) {
  return {
      .id = (kind == TextKind::kChat ? "chatcmpl-" : "cmpl-") + id, .created = now, .model = admitted.model};
}

void append_opening(std::string& out, const ReplyHead& head, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_integer(out, head.created);
  out += ",\"model\":";
  append_json_string(out, head.model);
}

void append_timeline(std::string& out, const std::vector<traces::Mark>& marks) {
  out += ",\"timeline\":";
  append_list(out, marks, [&](const traces::Mark& mark) {
    out += "{\"at_ms\":";
    append_ms(out, static_cast<double>(mark.after_ns) / 1e6);
    out += ",\"event\":\"";
    out += mark.event;
    out += '"';
    for (std::size_t i = 0; i < mark.fact_count; ++i) {
      const traces::Fact& fact = mark.facts[i];
      out += ",\"";
      out += fact.name;
      out += "\":";
      if (fact.word.empty()) {
        append_integer(out, static_cast<std::int64_t>(fact.number));
      } else {
        append_json_string(out, fact.word);
      }
    }
    out += '}';
  });
}

void append_usage(std::string& out, const Usage& usage, std::uint32_t reasoning_tokens) {
  out += "{\"prompt_tokens\":";
  append_integer(out, usage.prompt_tokens);
  out += ",\"completion_tokens\":";
  append_integer(out, usage.completion_tokens);
  out += ",\"total_tokens\":";
  append_integer(out, std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_integer(out, usage.cache.restored_tokens);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
  append_integer(out, reasoning_tokens);
  out += "}}";
}

void append_reprise(std::string& out, const Usage& usage) {
  const CacheReport& cache = usage.cache;
  out += "{\"restored_tokens\":";
  append_integer(out, cache.restored_tokens);
  out += ",\"prefilled_tokens\":";
  append_integer(out, cache.prefilled_tokens);
  out += ",\"miss_reason\":\"";
  out += name_of(cache.reason);
  out += "\",\"miss_position\":";
  append_integer(out, cache.known_tokens);
  out += ",\"lost_tokens\":";
  append_integer(out, cache.lost_tokens);
  out += ",\"behind_tokens\":";
  append_integer(out, cache.behind_tokens);
  out += ",\"restored_from\":";
  if (cache.origin) {
    out += '"';
    out += name_of(*cache.origin);
    out += '"';
  } else {
    out += "null";
  }
  out += ",\"restored_tier\":";
  if (cache.tier) {
    out += '"';
    out += name_of(*cache.tier);
    out += '"';
  } else {
    out += "null";
  }
  out += cache.waited_for_other ? ",\"waited_for_other\":true" : ",\"waited_for_other\":false";
  out += ",\"queued_ms\":";
  append_ms(out, usage.timing.queued_ms);
  out += ",\"prefill_ms\":";
  append_ms(out, usage.timing.prefill_ms);
  out += ",\"first_token_ms\":";
  append_ms(out, usage.timing.first_token_ms);
  out += ",\"decode_ms\":";
  append_ms(out, usage.timing.decode_ms);
  if (usage.kv) {
    out += ",\"kv\":{\"kept_tokens\":";
    append_integer(out, usage.kv->tokens);
    out += ",\"bytes\":";
    append_integer(out, static_cast<std::int64_t>(usage.kv->bytes));
    out += ",\"full_bytes\":";
    append_integer(out, static_cast<std::int64_t>(usage.kv->full_bytes));
    out += '}';
  }
  if (usage.reasoning_ended_by != ReasoningEnd::kModel) {
    out += ",\"reasoning_ended_by\":";
    append_json_string(out, name_of(usage.reasoning_ended_by));
  }
  if (usage.recognized_calls > 0) {
    out += ",\"recognized_calls\":";
    append_integer(out, usage.recognized_calls);
  }
  if (!usage.unknown_fields.empty()) {
    out += ",\"unknown_fields\":";
    unknown_fields_report(usage.unknown_fields).find("unknown_fields")->dump_to(out);
  }
  if (usage.miss_text) {
    out += ",\"miss_text\":";
    Json{{"before", usage.miss_text->before}, {"after", usage.miss_text->after}}.dump_to(out);
  }
  if (!usage.timeline.empty()) append_timeline(out, usage.timeline);
  out += '}';
}

std::string echo_of(const ReplyOptions& options, const Started& started) {
  const std::string& sent = options.prompt_texts.at(started.prompt_index);
  return sent.empty() && started.settled ? started.settled->prompt_text : sent;
}

void append_fingerprint(std::string& out) {
  out += ",\"system_fingerprint\":\"b-reprise-0.1.0\"";
}

void append_llama_account(std::string& out, const Usage& usage, const ReplyOptions& options,
                          const std::string& prompt_text) {
  out += ",\"timings\":";
  append_timings(out, timings_of(usage));
  if (!options.verbose) return;
  out += ",\"__verbose\":{\"prompt\":";
  append_lossy_string(out, prompt_text);
  out += '}';
}

void append_chat_logprobs(std::string& out, const std::vector<ReplyToken>& tokens) {
  out += "{\"content\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    append_chat_token(out, token.bytes, token.logprob.value_or(kLeastLogprob));
    out += ",\"top_logprobs\":";
    append_list(out, token.top, [&](const ReplyToken::Alternative& other) {
      append_chat_token(out, other.bytes, other.logprob);
      out += '}';
    });
    out += '}';
  });
  out += ",\"refusal\":null}";
}

void append_completion_logprobs(std::string& out, const std::vector<ReplyToken>& tokens,
                                std::uint64_t& offset) {
  out += "{\"tokens\":";
  append_list(out, tokens, [&](const ReplyToken& token) { append_token_name(out, token.bytes); });
  out += ",\"token_logprobs\":";
  append_list(out, tokens,
              [&](const ReplyToken& token) { append_logprob(out, token.logprob.value_or(kLeastLogprob)); });
  out += ",\"top_logprobs\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    out += '{';
    bool first = true;
    for (const ReplyToken::Alternative& other : token.top) {
      if (!std::exchange(first, false)) out += ',';
      append_token_name(out, other.bytes);
      out += ':';
      append_logprob(out, other.logprob);
    }
    out += '}';
  });
  out += ",\"text_offset\":";
  append_list(out, tokens, [&](const ReplyToken& token) {
    append_integer(out, static_cast<std::int64_t>(offset));
    for (const char c : token.bytes) offset += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  out += '}';
}

void append_token_ids(std::string& out, const std::vector<ReplyToken>& tokens) {
  append_list(out, tokens, [&](const ReplyToken& token) { append_integer(out, token.id); });
}

void append_prompt_ids(std::string& out, const SharedTokens& prompt) {
  if (prompt == nullptr) return;
  out += ",\"prompt_token_ids\":";
  append_list(out, *prompt, [&](TokenId id) { append_integer(out, id); });
}

}  // namespace reprise::protocol::openai
