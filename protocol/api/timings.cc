#include "protocol/api/timings.h"

#include <algorithm>
#include <cmath>

#include "base/json_text.h"

namespace reprise::protocol {
namespace {

void append_figure(std::string& out, const char* name, double value) {
  out += name;
  append_json_double(out, std::round(value * 1000) / 1000, false);
}

void append_pace(std::string& out, const std::string& of, std::uint32_t tokens, double ms) {
  append_figure(out, (",\"" + of + "_ms\":").c_str(), ms);
  append_figure(out, (",\"" + of + "_per_token_ms\":").c_str(), tokens == 0 ? 0 : ms / tokens);
  append_figure(out, (",\"" + of + "_per_second\":").c_str(), ms <= 0 ? 0 : tokens * 1000 / ms);
}

}  // namespace

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
