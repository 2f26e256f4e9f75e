// Tenants: their limits, and access to the metrics.

#include <gtest/gtest.h>

#include "protocol/http/tenant_meter.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;
using runtime::TimePoint;

TEST(TenantMeter, WithoutLimitsNothingIsCounted) {
  TenantMeter meter;
  const Tenant tenant{.name = "free"};
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(meter.enter(tenant, 1000, TimePoint()));
    meter.pay(tenant, 1'000'000, TimePoint());
  }
  meter.leave(tenant, 5);
}

TEST(TenantMeter, RequestsAtOnce) {
  TenantMeter meter;
  const Tenant tenant{.name = "a", .requests = 3};
  EXPECT_FALSE(meter.enter(tenant, 2, TimePoint()));
  const auto over = meter.enter(tenant, 2, TimePoint());
  ASSERT_TRUE(over);
  EXPECT_EQ(over->of, OverLimit::Of::kRequests);
  EXPECT_EQ(over->retry_after, 1s);
  EXPECT_FALSE(meter.enter(tenant, 1, TimePoint())) << "what was refused was not counted";
  EXPECT_FALSE(meter.enter({.name = "b", .requests = 3}, 3, TimePoint())) << "each its own";
  meter.leave(tenant, 2);
  EXPECT_FALSE(meter.enter(tenant, 2, TimePoint()));
}

TEST(TenantMeter, TokensAMinute) {
  TenantMeter meter;
  const Tenant tenant{.name = "a", .tokens_per_minute = 600};  // 10 per second
  const TimePoint begin = TimePoint() + 1h;
  EXPECT_FALSE(meter.enter(tenant, 1, begin));
  meter.pay(tenant, 599, begin);
  EXPECT_FALSE(meter.enter(tenant, 1, begin)) << "one is left";
  meter.pay(tenant, 201, begin);  // 200 are owed
  const auto over = meter.enter(tenant, 1, begin);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->of, OverLimit::Of::kTokens);
  EXPECT_EQ(over->retry_after, 21s) << "20 s for what is owed, and some for one token";
  EXPECT_TRUE(meter.enter(tenant, 1, begin + 19s));
  EXPECT_FALSE(meter.enter(tenant, 1, begin + 21s)) << "as was said";
  meter.pay(tenant, 600, begin + 21s + 24h);
  EXPECT_TRUE(meter.enter(tenant, 1, begin + 21s + 24h)) << "a day fills no more than a minute";
  EXPECT_TRUE(meter.enter(tenant, 1, begin)) << "a clock that goes back fills nothing";
  EXPECT_FALSE(meter.enter(tenant, 1, begin + 22s + 24h));
}

TEST(TenantMeter, ATenantThatIsOverItsTokensHoldsNoRequest) {
  TenantMeter meter;
  const Tenant tenant{.name = "a", .requests = 1, .tokens_per_minute = 60};
  EXPECT_FALSE(meter.enter(tenant, 1, TimePoint()));
  meter.leave(tenant, 1);
  meter.pay(tenant, 120, TimePoint());
  EXPECT_EQ(meter.enter(tenant, 1, TimePoint())->of, OverLimit::Of::kTokens);
  EXPECT_FALSE(meter.enter(tenant, 1, TimePoint() + 2min));
}

TEST(TokenAccount, CountsWhatIsKnown) {
  TokenAccount account;
  EXPECT_EQ(account.tokens(), 0u) << "not admitted";
  account.see(Admitted{"m", 100});
  EXPECT_EQ(account.tokens(), 100u) << "nobody knows how much was computed";
  account.see(Started{.cache = {.restored_tokens = 80, .prefilled_tokens = 20}, .prompt_tail = {}});
  EXPECT_EQ(account.tokens(), 20u);
  account.see(Delta{.text = "ab", .tokens = {{.id = 1, .bytes = "a"}, {.id = 2, .bytes = "b"}}});
  EXPECT_EQ(account.tokens(), 22u);
  account.see(Done{{.prompt_tokens = 100, .completion_tokens = 3, .cache = {.prefilled_tokens = 20}}});
  EXPECT_EQ(account.tokens(), 23u);

  TokenAccount several;
  several.expect_prompts(3);
  several.see(Admitted{"m", 10});
  several.see(Started{.cache = {.prefilled_tokens = 4}, .prompt_tail = {}});
  EXPECT_EQ(several.tokens(), 24u) << "two of them are not heard of";
}

std::string bearer(const std::string& key) {
  return "Authorization: Bearer " + key + "\r\n";
}

HttpOptions with_tenants(const Tenant& limited) {
  HttpOptions options;
  EXPECT_EQ(options.keys.add("secret-of-a a\nsecret-of-b b\nsecret-of-ops ops"), "");
  EXPECT_EQ(options.keys.describe({.name = "ops", .is_operator = true}), "");
  EXPECT_EQ(options.keys.describe(limited), "");
  return options;
}

TEST(HttpTenants, RequestsAtOnceAreLimitedByKey) {
  Served served(with_tenants({.name = "a", .requests = 2}));
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text("/v1/completions", R"({"prompt":"wait in the queue","n":2})",
                                  bearer("secret-of-a")));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  HttpClient client(served.port());
  const ClientResponse refused = client.post("/v1/chat/completions", kChat, bearer("secret-of-a"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "tenant_requests");
  EXPECT_GE(retry_after_of(refused), 1);
  EXPECT_EQ(client.post("/v1/chat/completions", kChat, bearer("secret-of-b")).status, 200);
  served.service.release();
  EXPECT_EQ(busy.read_response().status, 200);
  EXPECT_EQ(client.post("/v1/chat/completions", kChat, bearer("secret-of-a")).status, 200);
  const ClientResponse never =
      client.post("/v1/completions", R"({"prompt":"x","n":3})", bearer("secret-of-a"));
  EXPECT_EQ(never.status, 400) << "trying again would not help";
  EXPECT_EQ(code_of(never), "too_many");
}

TEST(HttpTenants, PrioritiesAndSharesReachTheEngine) {
  Served served(with_tenants({.name = "a", .state_share = 0.25, .priority = Priority::kLow}));
  HttpClient client(served.port());
  const auto ask = [&](const char* key, const std::string& more) {
    const ClientResponse answer =
        client.post("/v1/completions", R"({"prompt":"x")" + more + "}", bearer(key));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return served.service.requests().back();
  };
  const GenerateRequest own = ask("secret-of-a", "");
  EXPECT_EQ(own.origin.tenant, "a");
  EXPECT_EQ(own.origin.tenant_share, 0.25);
  EXPECT_EQ(own.origin.priority, Priority::kLow);
  EXPECT_EQ(ask("secret-of-a", R"(,"priority":"high")").origin.priority, Priority::kLow)
      << "no more than the key's";
  EXPECT_EQ(ask("secret-of-b", "").origin.priority, Priority::kNormal);
  EXPECT_EQ(ask("secret-of-b", R"(,"priority":"high")").origin.priority, Priority::kNormal);
  EXPECT_EQ(ask("secret-of-b", R"(,"priority":"low")").origin.priority, Priority::kLow);
  const ClientResponse odd =
      client.post("/v1/completions", R"({"prompt":"x","priority":"urgent"})", bearer("secret-of-b"));
  EXPECT_EQ(odd.status, 400);
  EXPECT_NE(odd.body.find("priority: must be"), std::string::npos) << odd.body;
  Served open_house{HttpOptions{}};
  HttpClient anybody(open_house.port());
  EXPECT_EQ(anybody.post("/v1/completions", R"({"prompt":"x","priority":"high"})").status, 200);
  EXPECT_EQ(open_house.service.requests().back().origin.priority, Priority::kHigh);
}

TEST(HttpTenants, ReasoningIsEndedByItsOwnTenantAlone) {
  Served served(with_tenants({.name = "a"}));
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text("/v1/chat/completions", kWaitingChat, bearer("secret-of-a")));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  const std::string id = "chatcmpl-" + served.service.requests().back().origin.reply_id;
  HttpClient client(served.port());
  const auto end = [&](const std::string& body, const char* key) {
    return client.post("/v1/chat/completions/control", body, bearer(key));
  };
  const std::string body = R"({"action":"reasoning_end","id":")" + id + "\"}";
  const ClientResponse foreign = end(body, "secret-of-b");
  EXPECT_EQ(foreign.status, 404);
  EXPECT_NE(error_field(foreign, "message").find(id), std::string::npos);
  EXPECT_EQ(end(body, "secret-of-ops").status, 404);
  EXPECT_EQ(end(R"({"action":"reasoning_end","id":"chatcmpl-0"})", "secret-of-a").status, 404);
  EXPECT_EQ(end(R"({"action":"reasoning_end"})", "secret-of-a").status, 400);
  EXPECT_EQ(end(R"({"id":"chatcmpl-0","action":"stop"})", "secret-of-a").status, 400);
  const ClientResponse done = end(body, "secret-of-a");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body, R"({"success":true})");
  served.service.release();
  const ClientResponse reply = busy.read_response();
  EXPECT_EQ(*parsed(reply.body).find_string("id"), id);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 0; }));
  EXPECT_EQ(end(body, "secret-of-a").status, 404) << "it has ended";
}

TEST(HttpTenants, TokensAMinuteAreLimitedByKey) {
  Served served(with_tenants({.name = "a", .tokens_per_minute = 5}));
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/v1/chat/completions", kChat, bearer("secret-of-a")).status, 200) << "costs 4 + 4";
  const ClientResponse refused = client.post("/v1/chat/completions", kChat, bearer("secret-of-a"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "tenant_tokens");
  EXPECT_GT(retry_after_of(refused), 30) << "4 tokens at 5 a minute";
  EXPECT_LE(retry_after_of(refused), 48);
  EXPECT_EQ(client.post("/v1/chat/completions", kChat, bearer("secret-of-b")).status, 200);
}

TEST(HttpTenants, AReplyThatIsBrokenOffIsPaidFor) {
  Served served(with_tenants({.name = "a", .tokens_per_minute = 5}));
  {
    HttpClient client(served.port());
    client.send(HttpClient::post_text("/v1/completions", R"({"prompt":"go on for ever","stream":true})",
                                      bearer("secret-of-a")));
    ASSERT_TRUE(client.read_until("word"));
  }
  HttpClient client(served.port());
  ASSERT_TRUE(eventually([&] {
    const std::string page = client.get("/metrics", bearer("secret-of-ops")).body;
    return page.find("reprise_http_generations 0\n") != std::string::npos;
  }));
  EXPECT_EQ(code_of(client.post("/v1/chat/completions", kChat, bearer("secret-of-a"))), "tenant_tokens")
      << "4 of the prompt and a word at least";
}

TEST(HttpTenants, MetricsAreForOperators) {
  Served served(with_tenants({.name = "a"}));
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/metrics").status, 401);
  const ClientResponse refused = client.get("/metrics", bearer("secret-of-a"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(code_of(refused), "operator_only");
  EXPECT_NE(refused.body.find("operator = true"), std::string::npos) << "says what to set";
  EXPECT_EQ(client.get("/metrics", bearer("secret-of-ops")).status, 200);
  EXPECT_EQ(client.get("/v1/models", bearer("secret-of-a")).status, 200);
}

TEST(KeyRing, TenantsAreDescribedByName) {
  KeyRing keys;
  ASSERT_EQ(keys.add("secret-one acme\nsecret-two acme\nsecret-three"), "");
  EXPECT_EQ(keys.describe({.name = "acme", .requests = 3, .priority = Priority::kHigh}), "");
  EXPECT_EQ(keys.describe({.name = "nobody"}), "there is no API key of tenant 'nobody'");
  EXPECT_EQ(keys.tenant_of("secret-one"), keys.tenant_of("secret-two"));
  EXPECT_EQ(keys.tenant_of("secret-two")->requests, 3u);
  EXPECT_EQ(keys.tenant_of("secret-two")->cache_owner, "acme");
  EXPECT_EQ(keys.tenant_of("secret-three")->requests, 0u);
  keys.share_cache();
  EXPECT_EQ(keys.tenant_of("secret-one")->cache_owner, keys.tenant_of("secret-three")->cache_owner);
  EXPECT_NE(keys.tenant_of("secret-one")->name, keys.tenant_of("secret-three")->name);
}

TEST(HttpTenants, WorkOnTextsIsPaidByItsTime) {
  Served served(with_tenants({.name = "a", .tokens_per_minute = 600}));
  const std::string text = R"({"content":")" + std::string(1000, 'x') + R"("})";  // 1 s of work
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/tokenize", text, bearer("secret-of-a")).status, 200);
  const ClientResponse refused = client.post("/tokenize", text, bearer("secret-of-a"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "tenant_tokens");
  EXPECT_GE(retry_after_of(refused), 30);
  EXPECT_EQ(client.post("/v1/chat/completions", kChat, bearer("secret-of-a")).status, 429) << "one account";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post("/tokenize", text, bearer("secret-of-b")).status, 200) << "others' are their own";
  }
}

TEST(HttpTenants, WorkOnTextsIsARequest) {
  Served served(with_tenants({.name = "a", .requests = 1}));
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text("/v1/chat/completions", kWaitingChat, bearer("secret-of-a")));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  HttpClient client(served.port());
  const std::string text = R"({"content":"hi"})";
  const ClientResponse refused = client.post("/tokenize", text, bearer("secret-of-a"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "tenant_requests");
  EXPECT_EQ(client.post("/tokenize", text, bearer("secret-of-b")).status, 200);
  served.service.release();
  EXPECT_EQ(busy.read_response().status, 200);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post("/tokenize", text, bearer("secret-of-a")).status, 200)
        << "each gives back its place";
  }
}

}  // namespace
}  // namespace reprise::protocol
