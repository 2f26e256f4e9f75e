// Embeddings over HTTP, from a service that returns (3, 0, 4) for every input.

#include <gtest/gtest.h>

#include <cstring>

#include "base/base64.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

struct Embeddings : ::testing::Test {
  ClientResponse post(const std::string& members) {
    HttpClient client(served.port());
    return client.post("/v1/embeddings", "{" + members + "}");
  }
  /// Returns the first input's values.
  std::vector<double> values(const std::string& members) {
    const ClientResponse response = post(members);
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<double> values;
    const auto body = Json::parse(response.body);
    for (const Json& value : *body->find_array("data")->front().find_array("embedding"))
      values.push_back(value.as_double());
    return values;
  }
  std::string refusal(const std::string& members) {
    const ClientResponse response = post(members);
    const auto body = Json::parse(response.body);
    const Json* error = body->find("error");
    if (error == nullptr) return "accepted";
    return std::to_string(response.status) + " " + *error->find_string("code") + " " +
           *error->find_string("param");
  }

  Served served;
};

TEST_F(Embeddings, AreNormalized) {
  const std::vector<double> got = values(R"("input":"hi","model":"fake")");
  ASSERT_EQ(got.size(), 3u);
  EXPECT_NEAR(got[0], 0.6, 1e-6);
  EXPECT_NEAR(got[2], 0.8, 1e-6);
  EXPECT_EQ(values(R"("input":"hi","normalize":false)"), (std::vector<double>{3, 0, 4}));
  EXPECT_EQ(values(R"("input":"hi","dimensions":2)"), (std::vector<double>{1, 0})) << "of length 1 again";
}

TEST_F(Embeddings, TakeTextsAndTokens) {
  const ClientResponse response = post(R"("input":["a","b"],"pooling":"mean","dimensions":2)");
  ASSERT_EQ(response.status, 200) << response.body;
  const auto body = Json::parse(response.body);
  EXPECT_EQ(body->find_array("data")->size(), 2u);
  EXPECT_EQ((*body->find_array("data"))[1].find("index")->as_int(), 1);
  EXPECT_EQ(body->find("usage")->find("prompt_tokens")->as_int(), 18);
  EXPECT_NE(body->find("reprise"), nullptr);
  const GenerateRequest asked = served.service.requests().back();
  ASSERT_TRUE(asked.embedding);
  EXPECT_EQ(asked.embedding->pooling, Pooling::kMean);
  EXPECT_EQ(asked.embedding->dimensions, 2u);
  EXPECT_EQ(post(R"("input":[1,2,3])").status, 200);
  EXPECT_EQ(std::get<TokenList>(served.service.requests().back().prompt), (TokenList{1, 2, 3}));
  EXPECT_EQ(post(R"("input":[[1],[2,3]])").status, 200);
}

TEST_F(Embeddings, ComeInBase64) {
  const ClientResponse response = post(R"("input":"hi","encoding_format":"base64","normalize":false)");
  const auto body = Json::parse(response.body);
  const auto bytes = from_base64(*body->find_array("data")->front().find_string("embedding"));
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), 12u);
  float values[3];
  std::memcpy(values, bytes->data(), sizeof values);
  EXPECT_EQ(values[0], 3.0f);
  EXPECT_EQ(values[2], 4.0f);
}

TEST_F(Embeddings, RefusalsNameTheField) {
  EXPECT_EQ(refusal(R"("model":"fake")"), "400 missing input");
  EXPECT_EQ(refusal(R"("input":[])"), "400 invalid_value input");
  EXPECT_EQ(refusal(R"("input":["a",7])"), "400 invalid_type input[1]");
  EXPECT_EQ(refusal(R"("input":"a","encoding_format":"hex")"), "400 invalid_value encoding_format");
  EXPECT_EQ(refusal(R"("input":"a","pooling":"max")"), "400 invalid_value pooling");
  EXPECT_EQ(refusal(R"("input":"a","dimensions":0)"), "400 out_of_range dimensions");
  EXPECT_EQ(refusal(R"("input":"a","stream":true)"), "400 unsupported_parameter stream");
}

}  // namespace
}  // namespace reprise::protocol
