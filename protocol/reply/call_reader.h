#pragma once
// CallReader: parses the tool calls of one format, character by character, after the mark that opens them.
// Also the helpers that the readers share.
//
// Input that has not been passed on can be taken back: the caller keeps the text since the reader's last
// output, and treats it as content if the reader reports that it is not a call.
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

/// The parameter types of a request's tools. Calls in XML or Python syntax carry values as plain text, and
/// the schema says which of them are strings. Immutable.
class ToolSchemas {
 public:
  enum class Kind : std::uint8_t {
    kText,   // strings only
    kMixed,  // string or null
    kJson,   // other types, or unknown
  };

  /// `tools`: an array of tools in OpenAI's form or of bare functions, or null.
  explicit ToolSchemas(Json tools) : tools_(std::move(tools)) {}

  bool has(std::string_view tool) const { return find(tool) != nullptr; }
  Kind kind_of(std::string_view tool, std::string_view parameter) const;

 private:
  const Json* find(std::string_view tool) const;

  Json tools_;
};

/// Maximum bytes of a name or key; longer text is not accepted as one.
inline constexpr std::size_t kMaxCallNameLength = 256;

/// Receives the output of a reader. `held`: how many of the last input characters the output does not
/// include.
class CallSink {
 public:
  virtual ~CallSink() = default;
  /// `id` is the model's; may be empty.
  virtual void begin(std::string name, std::string id, std::size_t held = 0) = 0;
  virtual void arguments(std::string_view json, std::size_t held = 0) = 0;
  virtual void end(std::size_t held = 0) = 0;
};

class CallReader {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,    // the character ended the calls
    kBroken,  // not a call, or no longer; the last unread() characters follow it
  };

  virtual ~CallReader() = default;

  virtual Step put(char c, CallSink& out) = 0;

  /// Called at the end of the reply. Passes on withheld arguments of an incomplete call.
  virtual void stop(CallSink& out) = 0;

  /// Returns whether all calls so far are complete and no other has begun; at most part of a closing mark was
  /// read after them.
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

/// Searches a character stream for the first of several marks. Withholds characters that may begin a mark,
/// fewer than the longest mark has. Requires: no mark is a prefix of another.
class MarkFinder {
 public:
  static constexpr int kNone = -1;

  MarkFinder() = default;
  explicit MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  /// Returns the index of the mark that `c` completes, or kNone. Appends to `passed` the characters that
  /// cannot belong to a mark.
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

/// Requires: format.has_calls(). Keeps references to the arguments.
std::unique_ptr<CallReader> make_call_reader(const ReplyFormat& format, const ToolSchemas& tools);

// Readers of the formats. `close`: the mark after the calls; empty: they end with their JSON. Keep references
// to both arguments.

/// `bare`: JSON without marks, where an object is a call only if it names one of the tools.
std::unique_ptr<CallReader> make_json_call_reader(std::string_view close, bool bare,
                                                  const ToolSchemas& tools);
std::unique_ptr<CallReader> make_xml_call_reader(std::string_view close, const ToolSchemas& tools);
std::unique_ptr<CallReader> make_python_call_reader(std::string_view close, const ToolSchemas& tools);

}  // namespace reprise::protocol
