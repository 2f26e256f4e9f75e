#pragma once
// CallReader: reads the tool calls of one family, character by character, from behind the mark that opens
// them.
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

#include "protocol/reply/reply_format.h"
#include "protocol/reply/tool_schemas.h"

namespace reprise::protocol {

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

/// Requires format.has_calls(). Keeps references to both.
std::unique_ptr<CallReader> make_call_reader(const ReplyFormat& format, const ToolSchemas& tools);

/// Names and keys longer than this are no names and keys.
inline constexpr std::size_t kLongestCallName = 256;

}  // namespace reprise::protocol
