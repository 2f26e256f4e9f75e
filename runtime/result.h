#pragma once
// Result<T>: a T or an Error, for expected failures.
//
// Reading the value of a failed Result is a bug and aborts the program (REPRISE_CHECK); test ok() first.

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/outcome.h"

namespace reprise::runtime {

enum class ErrorCode {
  kStopped,      // the actor (or its system) has stopped, perhaps before it answered
  kMailboxFull,  // the mailbox was at capacity and did not accept the message
  kDropped,      // the mailbox accepted the message, then dropped it in favor of newer ones
  kDeadline,     // the deadline passed; the work may or may not have been done
  kCanceled,     // the waiting side canceled through a CancelToken
  kNoReply,      // the handler's ReplyTo was destroyed without an answer
  kFailed,       // the handler threw; the error has the exception's text
  kEnded,        // the stream was closed in an orderly way
  kIo,           // an operating system or Asio error; the error has its text
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message{};  // empty if the code says everything

  /// Returns e.g. "deadline passed" or "handler threw: out of cheese".
  std::string describe() const;
};

template <class T>
class [[nodiscard]] Result : public Outcome<T, Error> {
 public:
  using Value = T;

  Result(T value) : Outcome<T, Error>(std::move(value)) {}
  Result(Error error) : Outcome<T, Error>(std::move(error)) {}
  Result(ErrorCode code) : Outcome<T, Error>(Error{code}) {}
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  Result(ErrorCode code) : error_(Error{code}) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    REPRISE_CHECK(!ok(), "error() of a Result that holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace reprise::runtime
