#include "models/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <new>

#include "base/utf8.h"

namespace reprise::models {
namespace {

// PCRE2 can be bounded by steps from one place where a match may start, anew for each place, and a step may
// pass over any number of characters. So a search goes through the text in windows, with few steps for a
// place; where they run out, place by place with more of them; and in between the time is looked at.
constexpr std::size_t kFirstWindow = 256;  // bytes; twice as many each time nothing was found
constexpr std::uint64_t kWindowSteps = 16'384;
constexpr std::uint64_t kFreeSteps = 2'000'000;  // from one place, and more in long texts
constexpr std::uint64_t kStepsPerByte = 64;
constexpr std::uint64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
constexpr std::chrono::nanoseconds kFreeTime = std::chrono::seconds(2);  // of the processor, for a text
constexpr std::chrono::nanoseconds kTimePerByte = std::chrono::microseconds(1);
constexpr std::uint32_t kSearchesBetweenLooks = 64;
constexpr std::uint32_t kHeapLimitKiB = 512 * 1024;           // without JIT
constexpr std::size_t kJitStackBytes = 512ull * 1024 * 1024;  // reserved, used as needed; with JIT

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

template <typename T, auto kFree>
using Handle = std::unique_ptr<T, Freer<kFree>>;

using CodeHandle = Handle<pcre2_code, pcre2_code_free>;
using CompileContext = Handle<pcre2_compile_context, pcre2_compile_context_free>;
using MatchContext = Handle<pcre2_match_context, pcre2_match_context_free>;
using MatchData = Handle<pcre2_match_data, pcre2_match_data_free>;
using JitStack = Handle<pcre2_jit_stack, pcre2_jit_stack_free>;

}  // namespace

struct Regex::Code {
  CodeHandle code;
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT, &error,
                                  &offset, context.get()));
  if (!code_->code) {
    throw RegexError(message_of(error) + " at offset " + std::to_string(offset) + " of " +
                     std::string(pattern));
  }
  // Where JIT is not to be had the interpreter does the same work, only slower.
  pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Matcher::State {
  const pcre2_code* code = nullptr;
  MatchData data;
  JitStack stack;  // made when the 32 KiB that a JIT search has by itself run out
  MatchContext context;
};

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.code_->code.get();
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  if (!state_->data || !state_->context) throw std::bad_alloc();
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKiB);
}

Regex::Matcher::~Matcher() = default;
Regex::Matcher::Matcher(Matcher&&) noexcept = default;
Regex::Matcher& Regex::Matcher::operator=(Matcher&&) noexcept = default;

void Regex::Matcher::start(std::string_view text) {
  text_ = text;
  from_ = begin_ = end_ = 0;
  has_matched_ = false;
  searches_ = 0;
  began_ = {};
}

bool Regex::Matcher::next() {
  while (from_ <= text_.size() && search(from_)) {
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(state_->data.get());
    // \K in a lookahead may set the start behind the end; such a match counts as empty.
    const std::size_t match_end = place[1];
    const std::size_t match_begin = place[0] < match_end ? place[0] : match_end;
    if (match_begin == match_end && has_matched_ && match_end == end_) {
      from_ += from_ < text_.size() ? read_valid_utf8(text_, from_).length : 1;
      continue;
    }
    begin_ = match_begin;
    end_ = from_ = match_end;
    has_matched_ = true;
    return true;
  }
  return false;
}

bool Regex::Matcher::search(std::size_t from) {
  if (++searches_ % kSearchesBetweenLooks == 0) look_at_time();
  for (std::size_t window = kFirstWindow;; window *= 2) {
    const std::size_t last = std::min(text_.size(), from + window);
    int found = run(from, last, kWindowSteps);
    if (found == PCRE2_ERROR_MATCHLIMIT) found = search_slowly(from, last);
    if (found >= 0) return true;
    if (found != PCRE2_ERROR_NOMATCH) fail(message_of(found));
    if (last == text_.size()) return false;
    from = next_place(last);
    look_at_time();
  }
}

// Place by place, each with as many steps as it needs, within limits.
int Regex::Matcher::search_slowly(std::size_t from, std::size_t last) {
  const std::uint64_t most = std::min(kMostSteps, kFreeSteps + kStepsPerByte * text_.size());
  for (; from <= last; from = next_place(from)) {
    int found = PCRE2_ERROR_MATCHLIMIT;
    for (std::uint64_t steps = kWindowSteps; found == PCRE2_ERROR_MATCHLIMIT; steps *= 4) {
      if (steps > 4 * most) fail(message_of(found));
      found = run(from, from, std::min(steps, most));
      look_at_time();
    }
    if (found != PCRE2_ERROR_NOMATCH) return found;
  }
  return PCRE2_ERROR_NOMATCH;
}

/// Behind the character at `place`, which may be in the middle of it.
std::size_t Regex::Matcher::next_place(std::size_t place) const {
  for (++place; place < text_.size() && (static_cast<unsigned char>(text_[place]) & 0xC0) == 0x80;) ++place;
  return place;
}

void Regex::Matcher::look_at_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  const auto now = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  if (began_ == std::chrono::nanoseconds{}) began_ = now;
  if (now - began_ > kFreeTime + kTimePerByte * text_.size()) fail("it took too long");
}

// A match that starts in [from, last] and takes at most `steps` from each place.
int Regex::Matcher::run(std::size_t from, std::size_t last, std::uint64_t steps) {
  pcre2_set_match_limit(state_->context.get(), static_cast<std::uint32_t>(steps));
  pcre2_set_offset_limit(state_->context.get(), last);
  const auto* text = reinterpret_cast<PCRE2_SPTR>(text_.data());
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(state_->code, text, text_.size(), from, PCRE2_NO_UTF_CHECK | options,
                       state_->data.get(), state_->context.get());
  };
  int found = match(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT && !state_->stack) {
    state_->stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
    if (state_->stack) {
      pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
      found = match(0);
    }
  }
  return found == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : found;
}

void Regex::Matcher::fail(const std::string& why) {
  throw RegexError("the pattern of the pre-tokenizer gave up on the text: " + why);
}

}  // namespace reprise::models
