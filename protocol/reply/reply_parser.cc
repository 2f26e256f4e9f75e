#include "protocol/reply/reply_parser.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "protocol/reply/call_reader.h"
#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

// Generates the ids of a reply's calls, determined by seed and index.
class CallIds {
 public:
  /// `short_ids`: nine letters and digits, which some templates require.
  CallIds(std::string seed, bool short_ids) : seed_(std::move(seed)), short_ids_(short_ids) {}

  /// Returns the id of the next call: the model's own if it is usable.
  std::string next(std::string from_model) {
    const std::uint32_t index = next_++;
    if (!from_model.empty() && (!short_ids_ || is_short_id(from_model))) return from_model;
    return short_ids_ ? short_id(index) : "call_" + seed_ + "_" + std::to_string(index);
  }

 private:
  static constexpr std::size_t kShort = 9;
  static constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

  static bool is_short_id(std::string_view id) {
    return id.size() == kShort && id.find_first_not_of(kLetters) == std::string_view::npos;
  }

  std::string short_id(std::uint32_t index) const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (const char c : seed_) mix(static_cast<unsigned char>(c));
    for (int shift = 0; shift < 32; shift += 8) mix(static_cast<unsigned char>(index >> shift));
    hash ^= hash >> 31;
    std::string id(kShort, '0');
    for (char& c : id) {
      c = kLetters[hash % kLetters.size()];
      hash /= kLetters.size();
    }
    return id;
  }

  const std::string seed_;
  const bool short_ids_;
  std::uint32_t next_ = 0;
};

}  // namespace

class ReplyParser::Machine : public CallSink {
 public:
  Machine(ReplyFormat format, ReplyParserOptions options)
      : format_(std::move(format)),
        tools_(std::move(options.tools)),
        ids_(std::move(options.id_seed), format_.short_ids),
        reads_calls_(options.parse_tools && format_.has_calls()),
        reads_bare_(reads_calls_ && format_.calls == ReplyFormat::Calls::kBareJson),
        shows_reasoning_(options.parse_reasoning) {
    std::string_view tail = options.prompt_tail;
    if (tail.ends_with(options.reply_opening)) tail.remove_suffix(options.reply_opening.size());
    // If calls are not parsed either, reasoning marks need no parsing.
    const bool reads_reasoning = format_.has_reasoning() && (shows_reasoning_ || reads_calls_);
    if (!reads_reasoning) format_.think_open.clear();
    if (opens_thinking(format_, tail)) enter_reasoning();
    reads_nothing_ = !reads_calls_ && !reads_reasoning;
    feed(options.reply_opening);
  }

  std::uint32_t calls() const { return calls_; }
  bool in_reasoning() const { return in_reasoning_; }
  bool may_begin_reasoning() const { return at_start_ && !in_reasoning_ && !format_.think_open.empty(); }

  void feed(std::string_view text) {
    while (!text.empty()) {
      const std::size_t plain = plain_start(text);
      if (plain > 0) {
        give(text.substr(0, plain));
        text.remove_prefix(plain);
      } else {
        feed(text.front());
        text.remove_prefix(1);
      }
    }
  }

  void finish() {
    REPRISE_CHECK(!finished_, "a reply was finished twice");
    finished_ = true;
    if (reader_ != nullptr) end_reader();
    give_all(std::exchange(held_, {}));
    if (!draft_.empty()) read_draft();
    // Drop newlines at the end of reasoning, but not of content.
    if (!(in_reasoning_ && shows_reasoning_)) give(std::exchange(spaces_, {}));
  }

  ReplyPieces take() { return std::exchange(pieces_, {}); }

  // CallSink: output of the reader.

  void begin(std::string name, std::string id, std::size_t held) override {
    drop_draft();
    pieces_.push_back(ToolCallBegin{calls_, ids_.next(std::move(id)), std::move(name)});
    ++calls_;
    call_open_ = true;
    given(held);
  }

  void arguments(std::string_view json, std::size_t held) override {
    given(held);
    if (json.empty()) return;
    if (!pieces_.empty()) {
      if (auto* last = std::get_if<ToolCallArguments>(&pieces_.back())) {
        last->json += json;
        return;
      }
    }
    pieces_.push_back(ToolCallArguments{calls_ - 1, std::string(json)});
  }

  void end(std::size_t held) override {
    pieces_.push_back(ToolCallEnd{calls_ - 1});
    call_open_ = false;
    given(held);
  }

 private:
  void end_reader() {
    reader_->stop(*this);
    const bool drops = call_open_ || reader_->between_calls();
    if (call_open_) end(0);
    reader_ = nullptr;
    if (!drops) give_all(raw_);
    raw_.clear();
  }

  enum class Mark { kNone, kPossible, kThinkOpen, kThinkClose, kCallOpen, kBareOpen };

  // Returns how many leading characters of `text` can be passed on unchanged.
  std::size_t plain_start(std::string_view text) const {
    if (reads_nothing_) return text.size();
    if (reader_ != nullptr || at_start_ || drops_newlines_ || !held_.empty() || !spaces_.empty()) return 0;
    char stops[4] = {'\n', '\r', 0, 0};
    std::size_t count = 2;
    if (in_reasoning_) stops[count++] = format_.think_close[0];
    if (reads_calls_) stops[count++] = format_.call_open[0];
    return std::min(text.find_first_of(std::string_view(stops, count)), text.size());
  }

  void feed(char c) {
    if (reader_ != nullptr) {
      feed_reader(c);
      return;
    }
    held_ += c;
    while (!held_.empty()) {
      const Mark mark = match();
      if (mark == Mark::kPossible) return;
      if (mark != Mark::kNone) {
        marked(mark, std::exchange(held_, {}));
        return;
      }
      give_held_back(held_.front());
      held_.erase(0, 1);
    }
  }

  Mark match() const {
    bool possible = false;
    const auto matches = [&](std::string_view mark) {
      if (mark == held_) return true;
      possible = possible || mark.starts_with(held_);
      return false;
    };
    if (in_reasoning_) {
      if (matches(format_.think_close)) return Mark::kThinkClose;
      if (reads_calls_ && !drafting_ && matches(format_.call_open)) return Mark::kCallOpen;
    } else {
      if (at_start_ && matches(format_.think_open)) return Mark::kThinkOpen;
      if (reads_calls_ && matches(format_.call_open)) return Mark::kCallOpen;
      if (reads_bare_ && at_start_ && matches("{")) return Mark::kBareOpen;
    }
    return possible ? Mark::kPossible : Mark::kNone;
  }

  void marked(Mark mark, std::string text) {
    if (mark == Mark::kCallOpen && in_reasoning_) {
      drafting_ = true;
      draft_ += std::exchange(spaces_, {}) + text;
      return;
    }
    if (mark == Mark::kCallOpen || mark == Mark::kBareOpen) {
      raw_ = std::exchange(spaces_, {}) + text;
      reader_ = make_call_reader(format_, tools_);
      calls_before_ = calls_;
      if (mark == Mark::kBareOpen) reader_->put('{', *this);
      return;
    }
    if (shows_reasoning_) {
      spaces_.clear();
    } else {
      give(std::exchange(spaces_, {}));
      give(text);
    }
    if (mark == Mark::kThinkOpen) {
      enter_reasoning();
    } else {
      in_reasoning_ = false;
      drafting_ = false;
      drops_newlines_ = shows_reasoning_;
      at_start_ = true;
    }
  }

  void enter_reasoning() {
    drop_draft();  // reasoning follows, so a call before it was not a call
    in_reasoning_ = true;
    drops_newlines_ = shows_reasoning_;
    at_start_ = false;
  }

  void feed_reader(char c) {
    raw_ += c;
    const CallReader::Step step = reader_->put(c, *this);
    const std::size_t unread = step == CallReader::Step::kBroken ? reader_->unread() : 0;
    if (step == CallReader::Step::kMore) {
      if (raw_.size() <= kMaxCallHeld) return;
      reader_->stop(*this);
    }
    if (step != CallReader::Step::kDone && call_open_) {
      end(raw_.size());
    }
    std::string rest;
    if (step == CallReader::Step::kBroken) {
      REPRISE_CHECK(unread <= raw_.size(), "the call reader returned more bytes than it was given");
      rest = raw_.substr(raw_.size() - unread);
      raw_.resize(raw_.size() - unread);
    }
    reader_ = nullptr;
    at_start_ = false;
    drops_newlines_ = calls_ > calls_before_;
    if (step != CallReader::Step::kDone) give_all(raw_);
    raw_.clear();
    feed(rest);
  }

  // The reader has output all but the last `held` characters.
  void given(std::size_t held) {
    REPRISE_CHECK(held <= raw_.size(), "the call reader keeps more bytes than it was given");
    raw_.erase(0, raw_.size() - held);
  }

  // Passes on a character that is not part of a mark; withholds newlines that a following mark would remove.
  void give_held_back(char c) {
    const bool newline = c == '\n' || c == '\r';
    if (newline && drops_newlines_ && spaces_.empty()) return;
    const bool waits = newline ? in_reasoning_ || reads_calls_ || at_start_ : at_start_ && is_json_space(c);
    if (waits && spaces_.size() < kMaxNewlinesHeld) {
      spaces_ += c;
      return;
    }
    drops_newlines_ = at_start_ = false;
    give(std::exchange(spaces_, {}));
    give({&c, 1});
  }

  void give_all(std::string_view text) {
    for (const char c : text) give_held_back(c);
  }

  void give(std::string_view text) {
    if (text.empty()) return;
    if (drafting_) {
      draft_ += text;
      if (draft_.size() > kMaxCallHeld) drop_draft();
      return;
    }
    if (!in_reasoning_) drop_draft();
    append_text(text, in_reasoning_ || reads_draft_);
  }

  void append_text(std::string_view text, bool reasoning) {
    if (reasoning && shows_reasoning_) {
      append<ReplyReasoning>(text);
    } else {
      append<ReplyContent>(text);
    }
  }

  // Treats a call inside reasoning as reasoning.
  void drop_draft() {
    drafting_ = false;
    if (!draft_.empty()) append_text(std::exchange(draft_, {}), true);
  }

  // Nothing followed the reasoning: parses calls in the draft. The rest of it is reasoning.
  void read_draft() {
    const std::string draft = std::exchange(draft_, {}) + (shows_reasoning_ ? std::string() : spaces_);
    in_reasoning_ = drafting_ = at_start_ = drops_newlines_ = false;
    reads_draft_ = true;
    spaces_.clear();
    feed(draft);
    if (reader_ != nullptr) end_reader();
    give_all(std::exchange(held_, {}));
    if (shows_reasoning_) spaces_.clear();  // otherwise they end the content
  }

  template <class Piece>
  void append(std::string_view text) {
    Piece* last = pieces_.empty() ? nullptr : std::get_if<Piece>(&pieces_.back());
    if (last != nullptr) {
      last->text += text;
    } else {
      pieces_.push_back(Piece{std::string(text)});
    }
  }

  ReplyFormat format_;
  const ToolSchemas tools_;
  CallIds ids_;
  const bool reads_calls_;
  const bool reads_bare_;
  const bool shows_reasoning_;
  bool reads_nothing_ = false;

  bool in_reasoning_ = false;
  bool at_start_ = true;         // only whitespace and reasoning so far
  bool drops_newlines_ = false;  // set after a mark
  std::string spaces_{};         // whitespace before held_; dropped if a mark follows
  std::string held_{};           // may begin a mark

  bool drafting_ = false;     // a call has begun inside open reasoning
  std::string draft_{};       // text from that call to the end of the reasoning
  bool reads_draft_ = false;  // parsing the draft at the end of the reply

  std::unique_ptr<CallReader> reader_{};  // null outside calls
  std::string raw_{};                     // input since its last output
  bool call_open_ = false;
  std::uint32_t calls_ = 0;
  std::uint32_t calls_before_ = 0;  // number of calls before reader_ was created

  ReplyPieces pieces_{};
  bool finished_ = false;
};

ReplyParser::ReplyParser(ReplyFormat format, ReplyParserOptions options)
    : one_call_(options.one_call),
      machine_(std::make_unique<Machine>(std::move(format), std::move(options))) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

ReplyPieces ReplyParser::push(std::string_view text) {
  machine_->feed(text);
  return up_to_first_call(machine_->take());
}

ReplyPieces ReplyParser::finish() {
  machine_->finish();
  return up_to_first_call(machine_->take());
}

ReplyPieces ReplyParser::up_to_first_call(ReplyPieces pieces) {
  if (!one_call_) return pieces;
  if (has_call_) return {};
  const auto end = std::find_if(pieces.begin(), pieces.end(), [](const ReplyPiece& piece) {
    return std::holds_alternative<ToolCallEnd>(piece);
  });
  if (end == pieces.end()) return pieces;
  has_call_ = true;
  pieces.erase(end + 1, pieces.end());
  return pieces;
}

std::uint32_t ReplyParser::calls() const {
  return machine_->calls();
}

bool ReplyParser::in_reasoning() const {
  return machine_->in_reasoning();
}
bool ReplyParser::may_begin_reasoning() const {
  return machine_->may_begin_reasoning();
}

}  // namespace reprise::protocol
