#pragma once
// CallReader: reads the tool calls of one family, character by character, from behind the mark that opens
// them; and what readers share.
//
// What has been read and not yet given out can always be taken back: whoever drives the reader keeps the text
// since the last thing given out, and where the reader finds that this is no call after all, that text is
// content.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "protocol/reply/reply_format.h"

namespace reprise::protocol {

/// What a request's tools say about names and parameters. Calls in tags carry values as bare text; the schema
/// says which of them are strings and which are JSON. Const after construction.
class ToolSchemas {
 public:
  enum class Kind : std::uint8_t {
    kText,   // a string and nothing else
    kMixed,  // a string or null
    kJson,   // anything else, or not described
  };

  /// An array of tools as OpenAI has them, or of bare functions; null: none.
  explicit ToolSchemas(Json tools) : tools_(std::move(tools)) {}

  bool has(std::string_view tool) const { return find(tool) != nullptr; }
  Kind kind_of(std::string_view tool, std::string_view parameter) const;

 private:
  const Json* find(std::string_view tool) const;

  Json tools_;
};

/// Names and keys longer than this are no names and keys.
inline constexpr std::size_t kLongestCallName = 256;

/// Takes what a reader finds. `held`: so many of the last characters are not in what was given out.
class CallSink {
 public:
  virtual ~CallSink() = default;
  /// `id` as the model wrote it; may be empty.
  virtual void begin(std::string name, std::string id, std::size_t held = 0) = 0;
  virtual void arguments(std::string_view json, std::size_t held = 0) = 0;
  virtual void end(std::size_t held = 0) = 0;
};

class CallReader {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,    // the character was the last one of the calls
    kBroken,  // this is no call, or no longer; the last unread() characters belong to what follows
  };

  virtual ~CallReader() = default;

  virtual Step put(char c, CallSink& out) = 0;

  /// The reply ends here. Arguments of an open call that were kept for later are given out as they stand.
  virtual void stop(CallSink& out) = 0;

  /// All calls read are whole, and no other has been started: behind them came at most part of a closing
  /// mark.
  virtual bool between_calls() const = 0;

  std::size_t unread() const { return unread_; }

 protected:
  Step broken(std::size_t unread) {
    unread_ = unread;
    return Step::kBroken;
  }

 private:
  std::size_t unread_ = 0;
};

/// Finds the first of a few marks in text that comes character by character. Keeps the characters that may be
/// the start of a mark, fewer than the longest one has. No mark may be the start of another one.
class MarkFinder {
 public:
  static constexpr int kNone = -1;

  MarkFinder() = default;
  explicit MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  /// The mark that `c` completes, or kNone. Appends to `passed` what is now known to be part of no mark.
  int put(char c, std::string& passed) {
    held_ += c;
    while (!held_.empty()) {
      bool possible = false;
      for (std::size_t i = 0; i < marks_.size(); ++i) {
        if (!std::string_view(marks_[i]).starts_with(held_)) continue;
        if (marks_[i].size() == held_.size()) {
          held_.clear();
          return static_cast<int>(i);
        }
        possible = true;
      }
      if (possible) break;
      passed += held_.front();
      held_.erase(0, 1);
    }
    return kNone;
  }

  const std::string& held() const { return held_; }
  void clear() { held_.clear(); }

 private:
  std::vector<std::string> marks_;
  std::string held_;
};

/// Requires format.has_calls(). Keeps references to both.
std::unique_ptr<CallReader> make_call_reader(const ReplyFormat& format, const ToolSchemas& tools);

// The reader of one form. `close`: the mark behind the calls, empty where they end with their JSON. They keep
// references to it and to the tools.

/// `bare`: JSON without marks around it, where an object is a call only if its name is one of the tools.
std::unique_ptr<CallReader> make_json_call_reader(std::string_view close, bool bare,
                                                  const ToolSchemas& tools);
std::unique_ptr<CallReader> make_xml_call_reader(std::string_view close, const ToolSchemas& tools);
std::unique_ptr<CallReader> make_python_call_reader(std::string_view close, const ToolSchemas& tools);

}  // namespace reprise::protocol
