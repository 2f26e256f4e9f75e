#include "protocol/error.h"

#include <gtest/gtest.h>

namespace reprise::protocol {
namespace {

TEST(Errors, OfJobsBecomeThoseOfRequests) {
  const Error full = request_error({ErrorKind::kBusy, "many wait"});
  EXPECT_EQ(full.kind, ErrorKind::kOverloaded);
  EXPECT_EQ(full.message, "many wait");
  EXPECT_EQ(full.retry_after, std::chrono::seconds(1));
  EXPECT_EQ(request_error({ErrorKind::kNeverFits, ""}).kind, ErrorKind::kTooLong);
  EXPECT_EQ(request_error({ErrorKind::kCannotSample, ""}).param, "logit_bias");
  EXPECT_EQ(request_error({ErrorKind::kDamaged, ""}).kind, ErrorKind::kInternal);
  EXPECT_FALSE(request_error({ErrorKind::kUnavailable, ""}).retry_after) << "already a request's";
}

TEST(Errors, OwnFieldsGoBeforeThoseOfTheKind) {
  const ShownError plain = shown({ErrorKind::kUnknownModel, "no"});
  EXPECT_EQ(plain.status, 404);
  EXPECT_EQ(plain.code, "model_not_found");
  EXPECT_EQ(plain.param, "model");
  EXPECT_FALSE(plain.retry_after);
  const ShownError own = shown({.kind = ErrorKind::kUnavailable,
                                .param = "path",
                                .retry_after = std::chrono::seconds(9),
                                .code = "server_busy"});
  EXPECT_EQ(own.status, 503);
  EXPECT_EQ(own.code, "server_busy");
  EXPECT_EQ(own.param, "path");
  EXPECT_EQ(own.retry_after, std::chrono::seconds(9));
}

TEST(Errors, LostAnswersSayWhetherToTryAgain) {
  EXPECT_EQ(unanswered_error({runtime::ErrorCode::kDeadline}).kind, ErrorKind::kOverloaded);
  EXPECT_EQ(unanswered_error({runtime::ErrorCode::kStopped}).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(unanswered_error({runtime::ErrorCode::kFailed}).kind, ErrorKind::kInternal);
}

}  // namespace
}  // namespace reprise::protocol
