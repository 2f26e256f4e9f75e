#pragma once
// Calls in tags, with parameters as bare text:
//
//   <function=f>
//   <parameter=key>
//   value
//   </parameter>
//   </function>
//
// The parameters become one JSON object. One newline at each end of a value belongs to the tags. Strings are
// given out as they come; other values when they are whole.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/reply/call_reader.h"
#include "protocol/reply/mark_finder.h"

namespace reprise::protocol {

class XmlCallReader : public CallReader {
 public:
  /// `close`: the mark behind the calls. Keeps references to both.
  XmlCallReader(std::string_view close, const ToolSchemas& tools) : close_(close), tools_(tools) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override { return state_ == State::kBetween && calls_ > 0; }

 private:
  enum class State : std::uint8_t {
    kBetween,     // <function= or the closing mark comes
    kName,        // up to >
    kParameters,  // <parameter= or </function> comes
    kKey,         // up to >
    kValue,
  };

  Step tag(char c, CallSink& out);
  Step tag_read(CallSink& out);
  Step name(char c, CallSink& out);
  Step value(char c, CallSink& out);
  void start_value(CallSink& out);
  void end_call(CallSink& out);

  const std::string_view close_;
  const ToolSchemas& tools_;

  State state_ = State::kBetween;
  std::size_t calls_ = 0;
  std::string tag_{};  // as far as it has come
  std::string text_{};
  std::string function_{};
  bool has_parameters_ = false;
  ToolSchemas::Kind kind_ = ToolSchemas::Kind::kJson;
  bool value_starts_ = false;
  MarkFinder value_end_{{"</parameter>", "\n</parameter>"}};
};

}  // namespace reprise::protocol
