#include "protocol/api/reply_text.h"

#include <algorithm>
#include <cmath>

#include "protocol/api/field_rules.h"

namespace reprise::protocol {
namespace {

void append_ms(std::string& out, double value) {
  append_json_double(out, std::round(value * 1000) / 1000, false);
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

void append_figure(std::string& out, const char* name, double value) {
  out += name;
  append_ms(out, value);
}

void append_pace(std::string& out, const std::string& of, std::uint32_t tokens, double ms) {
  append_figure(out, (",\"" + of + "_ms\":").c_str(), ms);
  append_figure(out, (",\"" + of + "_per_token_ms\":").c_str(), tokens == 0 ? 0 : ms / tokens);
  append_figure(out, (",\"" + of + "_per_second\":").c_str(), ms <= 0 ? 0 : tokens * 1000 / ms);
}

}  // namespace

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

Timings timings_of(const Usage& usage) {
  const std::uint32_t restored = usage.cache.restored_tokens;
  return {.cache_n = restored,
          .prompt_n = usage.prompt_tokens - std::min(restored, usage.prompt_tokens),
          .prompt_ms = usage.timing.prefill_ms,
          .predicted_n = usage.completion_tokens,
          .predicted_ms = usage.timing.decode_ms};
}

void append_timings(std::string& out, const Timings& timings) {
  out += "{\"cache_n\":";
  append_integer(out, timings.cache_n);
  out += ",\"prompt_n\":";
  append_integer(out, timings.prompt_n);
  append_pace(out, "prompt", timings.prompt_n, timings.prompt_ms);
  out += ",\"predicted_n\":";
  append_integer(out, timings.predicted_n);
  append_pace(out, "predicted", timings.predicted_n, timings.predicted_ms);
  out += '}';
}

void LiveTimings::started(const Started& event) {
  started_ = std::chrono::steady_clock::now();
  now_.cache_n += event.cache.restored_tokens;
  now_.prompt_n +=
      event.cache.prompt_tokens - std::min(event.cache.restored_tokens, event.cache.prompt_tokens);
  now_.prompt_ms = std::chrono::duration<double, std::milli>(started_ - admitted_).count();
}

Timings LiveTimings::now() const {
  Timings timings = now_;
  timings.predicted_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started_).count();
  return timings;
}

}  // namespace reprise::protocol
