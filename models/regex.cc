#include "models/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <new>

#include "models/utf8.h"

namespace reprise::models {
namespace {

// PCRE2 counts its steps anew at every place where a match may start, and does not tell the count. So a place
// has few of them at first, more when they ran out, and those that ran out are charged to the text's budget.
constexpr std::uint32_t kFirstSteps = 256;
constexpr std::uint32_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kFreeSteps = 2'000'000;
constexpr std::uint64_t kStepsPerByte = 128;
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
  steps_left_ = kFreeSteps + kStepsPerByte * text.size();
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

// From anywhere at first; if that was too much for some place, place by place.
bool Regex::Matcher::search(std::size_t from) {
  int found = run(from, PCRE2_UNSET, kFirstSteps);
  while (found == PCRE2_ERROR_MATCHLIMIT) {
    for (std::uint32_t steps = kFirstSteps;; steps = steps < kMostSteps / 4 ? steps * 4 : kMostSteps) {
      found = run(from, from, steps);
      if (found != PCRE2_ERROR_MATCHLIMIT) break;
      if (steps > steps_left_) fail(found);
      steps_left_ -= steps;
    }
    if (found != PCRE2_ERROR_NOMATCH) break;
    if (from == text_.size()) return false;
    from += read_valid_utf8(text_, from).length;
    found = PCRE2_ERROR_MATCHLIMIT;
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) fail(found);
  return true;
}

// A match that starts in [from, last] and takes at most `steps` from each place.
int Regex::Matcher::run(std::size_t from, std::size_t last, std::uint32_t steps) {
  pcre2_set_match_limit(state_->context.get(), steps);
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

void Regex::Matcher::fail(int code) {
  throw RegexError("the pattern of the pre-tokenizer gave up on the text: " + message_of(code));
}

}  // namespace reprise::models
