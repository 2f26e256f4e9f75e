#include "models/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace reprise::models {
namespace {

// PCRE2's match limit applies to each start offset separately, and one step may cover any number of
// characters. So a search proceeds in windows with few steps per offset; when they run out, offset by offset
// with more steps. CPU time is checked in between.
constexpr std::size_t kFirstWindow = 256;  // bytes; doubled after each window without a match
constexpr std::uint64_t kWindowSteps = 16'384;
constexpr std::uint64_t kFreeSteps = 2'000'000;  // from one offset; more in long texts
constexpr std::uint64_t kStepsPerByte = 64;
constexpr std::uint64_t kMaxSteps = std::numeric_limits<std::uint32_t>::max();
constexpr std::chrono::nanoseconds kFreeTime = std::chrono::seconds(2);  // CPU time per text
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

// -- from Oniguruma's syntax

// Characters Oniguruma's \w matches, as the inside of a bracket.
constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// Inside of the bracket equal to \s, \w, \d or \h; upper case stands for the complement. Empty for other
// letters.
std::string_view set_of(char letter) {
  switch (letter) {
    case 's':
    case 'S':
      return R"(\t-\r\x{85}\p{Z})";
    case 'w':
    case 'W':
      return kWordCharacters;
    case 'd':
    case 'D':
      return R"(\p{Nd})";
    case 'h':
    case 'H':
      return "0-9A-Fa-f";
    default:
      return {};
  }
}

// "[…]" or "[^…]".
std::string bracket(std::string_view items, bool negated = false) {
  return join({negated ? "[^" : "[", items, "]"});
}

// A character class: the union of plain items and nested classes, or an intersection of such unions.
struct CharSet {
  bool negated = false;
  std::string items;            // as written inside brackets
  std::vector<CharSet> nested;  // joined to `items`
  std::vector<CharSet> others;  // intersected with the union

  bool is_plain() const { return nested.empty() && others.empty(); }
};

// A pattern that matches one character of the set; nested sets and intersections become lookaheads.
std::string to_pattern(const CharSet& set) {
  if (set.is_plain()) return bracket(set.items, set.negated);
  std::string one;
  if (!set.items.empty()) one = bracket(set.items);
  for (const CharSet& nested : set.nested) {
    if (!one.empty()) one += '|';
    one += to_pattern(nested);
  }
  std::string conditions;
  for (const CharSet& other : set.others) conditions += join({"(?=", to_pattern(other), ")"});
  if (!conditions.empty()) one = join({conditions, "(?:", one, ")"});
  if (!set.negated) return join({"(?:", one, ")"});
  return join({"(?:(?!", one, ")", "(?s:.)", ")"});
}

// Category abbreviations by long name, without '_' and in lower case.
constexpr std::array<std::pair<std::string_view, std::string_view>, 37> kCategories = {{
    {"letter", "L"},
    {"casedletter", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
}};

constexpr std::array<std::string_view, 30> kScripts = {
    "arabic",    "armenian", "bengali",  "bopomofo", "common", "cyrillic", "devanagari", "ethiopic",
    "georgian",  "greek",    "gujarati", "gurmukhi", "han",    "hangul",   "hebrew",     "hiragana",
    "inherited", "kannada",  "katakana", "khmer",    "lao",    "latin",    "malayalam",  "mongolian",
    "myanmar",   "sinhala",  "tamil",    "telugu",   "thai",   "tibetan"};

// Translates the name in Oniguruma's \p{…} to PCRE2: long category names become short, script names match the
// script alone. Unknown names are returned unchanged.
std::string pcre2_property(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == '_' || c == ' ' || c == '-') continue;
    key.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  }
  for (const auto& [long_name, short_name] : kCategories) {
    if (key == long_name) return std::string(short_name);
  }
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
  if (std::find(kScripts.begin(), kScripts.end(), key) != kScripts.end()) return key.insert(0, "sc:");
#endif
  return std::string(name);
}

constexpr int kMaxNesting = 50;

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw RegexError(join({what, " at offset ", std::to_string(at_), " of ", in_}));
  }

  bool has(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void begin_atom() { atom_ = out_.size(); }

  void step() {
    switch (in_[at_]) {
      case '\\':
        begin_atom();
        out_ += escape();
        break;
      case '[':
        begin_atom();
        ++at_;
        out_ += to_pattern(char_set(0));
        break;
      case '(':
        open_group();
        break;
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        copy(1);
        break;
      case '{':
        interval();
        break;
      case '*':
      case '+':
      case '?':
        copy(peek(1) == '+' || peek(1) == '?' ? 2 : 1);
        break;
      default:
        begin_atom();
        copy(read_utf8(in_, at_).length);
    }
  }

  void copy(std::size_t bytes) {
    bytes = std::min(bytes, in_.size() - at_);
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  void open_group() {
    groups_.push_back(out_.size());
    if (peek(1) == '*') fail("unsupported (*");
    if (peek(1) != '?') return copy(1);
    if (peek(2) == '~') fail("unsupported (?~");
    if (peek(2) == '#') return copy(in_.find(')', at_) - at_);
    copy(2);
    while (is_letter(peek()) || peek() == '-') {  // options; m is PCRE2's s
      out_ += peek() == 'm' ? 's' : peek();
      ++at_;
    }
  }

  // {n}, {n,}, {n,m} or {,m}; any other brace is a character.
  void interval() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return in_.substr(begin, end - begin);
    };
    const std::string_view low = digits();
    const bool has_comma = end < in_.size() && in_[end] == ',';
    if (has_comma) ++end;
    const std::string_view high = has_comma ? digits() : "";
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) {
      begin_atom();
      out_ += "\\{";
      ++at_;
      return;
    }
    at_ = end + 1;
    out_ += join({"{", low.empty() ? "0" : low, has_comma ? "," : "", high, "}"});
    if (peek() == '+') {  // repeats the interval, not possessive
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    } else if (peek() == '?') {
      copy(1);
    }
  }

  // \p{…} or \P{…}, at the letter.
  std::string property() {
    const bool negated = peek() == 'P';
    ++at_;
    if (peek() != '{') fail("\\p without {");
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) fail("\\p{ without }");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    at_ = end + 1;
    return join({negated != caret ? "\\P{" : "\\p{", pcre2_property(name), "}"});
  }

  // \uHHHH, at the letter.
  std::string code_point() {
    std::string digits;
    for (std::size_t i = 1; i <= 4; ++i) {
      if (!is_hex(peek(i))) fail("\\u without four digits");
      digits += peek(i);
    }
    at_ += 5;
    return join({"\\x{", digits, "}"});
  }

  // A backslash and the next character, which has no special meaning here.
  std::string plain_escape() {
    const std::size_t length = read_utf8(in_, at_).length;
    at_ += length;
    return join({"\\", in_.substr(at_ - length, length)});
  }

  // An escape outside a class, at the backslash.
  std::string escape() {
    ++at_;
    if (at_ >= in_.size()) fail("\\ at the end");
    const char letter = in_[at_];
    if (letter == 'p' || letter == 'P') return property();
    if (letter == 'u') return code_point();
    if (const std::string_view set = set_of(letter); !set.empty()) {
      ++at_;
      return bracket(set, is_capital(letter));
    }
    if (letter == 'v') {
      ++at_;
      return "\\x{0B}";
    }
    if (letter != 'b' && letter != 'B') return plain_escape();
    ++at_;
    const bool is_border = letter == 'b';
    return join({"(?:(?<=[", kWordCharacters, is_border ? "])(?![" : "])(?=[", kWordCharacters, "])|(?<![",
                 kWordCharacters, is_border ? "])(?=[" : "])(?![", kWordCharacters, "]))"});
  }

  // An escape inside a class, at the backslash; adds to the set. Returns true if it stands for several
  // characters.
  bool class_escape(CharSet& set) {
    ++at_;
    if (at_ >= in_.size()) fail("\\ at the end");
    const char letter = in_[at_];
    if (letter == 'p' || letter == 'P') {
      set.items += property();
      return true;
    }
    if (const std::string_view items = set_of(letter); !items.empty()) {
      ++at_;
      if (is_capital(letter)) {
        CharSet outside;
        outside.negated = true;
        outside.items = items;
        set.nested.push_back(std::move(outside));
      } else {
        set.items += items;
      }
      return true;
    }
    if (letter == 'u') {
      set.items += code_point();
    } else if (letter == 'v' || letter == 'b') {
      ++at_;
      set.items += letter == 'v' ? "\\x{0B}" : "\\x{08}";
    } else {
      set.items += plain_escape();
    }
    return false;
  }

  // The rest of a class, after its opening bracket.
  CharSet char_set(int depth) {
    if (depth > kMaxNesting) fail("classes nested too deeply");
    CharSet set;
    if (peek() == '^') {
      set.negated = true;
      ++at_;
    }
    bool is_first = true;
    bool is_after_many = false;  // the last item was a class such as \p{L}, so a hyphen is literal
    CharSet* part = &set;        // the operand that items go to
    std::vector<CharSet> others;
    CharSet current;
    for (;; is_first = false) {
      if (at_ >= in_.size()) fail("[ without ]");
      const char c = in_[at_];
      if (c == ']' && !is_first) break;
      if (has("&&")) {
        at_ += 2;
        if (part != &set) others.push_back(std::move(current));
        current = CharSet();
        part = &current;
        continue;
      }
      if (has("[:") && in_.find(":]", at_) != std::string_view::npos) {
        const std::size_t end = in_.find(":]", at_) + 2;
        part->items += in_.substr(at_, end - at_);
        at_ = end;
        is_after_many = true;
        continue;
      }
      if (c == '[') {
        ++at_;
        CharSet inner = char_set(depth + 1);
        if (inner.is_plain() && !inner.negated) {
          if (inner.items.starts_with('-')) part->items += "\\";
          part->items += inner.items;
        } else {
          part->nested.push_back(std::move(inner));
        }
        is_after_many = true;
        continue;
      }
      if (c == '\\') {
        is_after_many = class_escape(*part);
        continue;
      }
      if (c == '-' && (is_after_many || peek(1) == '[')) {
        part->items += "\\-";
        ++at_;
        is_after_many = false;
        continue;
      }
      if (c == ']') part->items += "\\";
      const std::size_t length = read_utf8(in_, at_).length;
      part->items += in_.substr(at_, length);
      at_ += length;
      is_after_many = false;
    }
    ++at_;
    if (part != &set) others.push_back(std::move(current));
    set.others = std::move(others);
    const auto is_empty = [](const CharSet& one) { return one.items.empty() && one.nested.empty(); };
    if (is_empty(set) || std::any_of(set.others.begin(), set.others.end(), is_empty)) fail("empty class");
    return set;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // offset in out_ of the last atom
  std::vector<std::size_t> groups_;  // offsets in out_ of the open groups
};

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
  // Without JIT the interpreter does the same work more slowly.
  pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Matcher::State {
  const pcre2_code* code = nullptr;
  MatchData data;
  JitStack stack;  // allocated when the default 32 KiB of a JIT search overflow
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
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data.get());
    // \K in a lookahead may set the start after the end; such a match counts as empty.
    const std::size_t match_end = offsets[1];
    const std::size_t match_begin = offsets[0] < match_end ? offsets[0] : match_end;
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
    from = next_offset(last);
    look_at_time();
  }
}

// Searches offset by offset, each with up to the maximum number of steps.
int Regex::Matcher::search_slowly(std::size_t from, std::size_t last) {
  const std::uint64_t most = std::min(kMaxSteps, kFreeSteps + kStepsPerByte * text_.size());
  for (; from <= last; from = next_offset(from)) {
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

/// Offset after the character at `offset`, which may point into the middle of it.
std::size_t Regex::Matcher::next_offset(std::size_t offset) const {
  for (++offset; offset < text_.size() && (static_cast<unsigned char>(text_[offset]) & 0xC0) == 0x80;)
    ++offset;
  return offset;
}

void Regex::Matcher::look_at_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  const auto now = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  if (began_ == std::chrono::nanoseconds{}) began_ = now;
  if (now - began_ > kFreeTime + kTimePerByte * text_.size()) fail("it took too long");
}

// Finds a match that starts in [from, last] and takes at most `steps` steps from each offset.
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

std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

std::string quote_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !is_letter(c) && !is_digit(c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace reprise::models
