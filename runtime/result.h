#pragma once
// Expected failures are values: Result<T> is a T or an Error.
//
// Reading the value of a failed Result is a bug and ends the program (REPRISE_CHECK): look first.
// Threading: plain values, no sharing.

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/outcome.h"

namespace reprise::runtime {

enum class ErrorCode {
  kStopped,      // the actor has stopped (or its system has), or stopped before it answered
  kMailboxFull,  // the mailbox was at its declared capacity and did not take the message
  kDropped,      // the mailbox took the message, then dropped it to make room for newer ones
  kDeadline,     // the deadline passed first; the work may or may not have been done
  kCancelled,    // the waiting side gave up through a CancelToken
  kNoReply,      // the handler let go of its ReplyTo without answering, by an exception or otherwise
  kFailed,       // the handler threw; the message of the exception is in the error
  kEnded,        // the stream ended in good order
  kIo,           // an operating system or Asio error; its text is in the error
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message{};  // empty where the code says it all

  /// "deadline passed" or "handler threw: out of cheese".
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
