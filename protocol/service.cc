#include "protocol/service.h"

#include <algorithm>

namespace reprise::protocol {

std::string_view name_of(ServiceErrorCode code) {
  switch (code) {
    case ServiceErrorCode::kInvalid:
      return "invalid";
    case ServiceErrorCode::kUnknownModel:
      return "unknown_model";
    case ServiceErrorCode::kTooLong:
      return "too_long";
    case ServiceErrorCode::kUnsupported:
      return "unsupported";
    case ServiceErrorCode::kOverloaded:
      return "overloaded";
    case ServiceErrorCode::kUnavailable:
      return "unavailable";
    case ServiceErrorCode::kInternal:
      return "internal";
    case ServiceErrorCode::kCancelled:
      return "cancelled";
  }
  return "?";
}

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string_view name_of(ModelCard::State state) {
  switch (state) {
    case ModelCard::State::kLoading:
      return "loading";
    case ModelCard::State::kReady:
      return "ready";
    case ModelCard::State::kFailed:
      return "failed";
  }
  return "?";
}

bool ModelCard::answers_to(std::string_view name) const {
  return id == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

}  // namespace reprise::protocol
