#include "runtime/result.h"

namespace reprise::runtime {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kStopped:
      return "actor stopped";
    case ErrorCode::kMailboxFull:
      return "mailbox full";
    case ErrorCode::kDropped:
      return "dropped for newer messages";
    case ErrorCode::kDeadline:
      return "deadline passed";
    case ErrorCode::kCanceled:
      return "cancelled";
    case ErrorCode::kNoReply:
      return "no reply given";
    case ErrorCode::kFailed:
      return "handler threw";
    case ErrorCode::kEnded:
      return "stream ended";
    case ErrorCode::kIo:
      return "input/output error";
  }
  return "unknown error";
}

std::string Error::describe() const {
  std::string text = to_string(code);
  if (!message.empty()) text += ": " + message;
  return text;
}

}  // namespace reprise::runtime
