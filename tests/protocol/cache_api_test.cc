// The endpoints for the cache and the models: visibility and permissions.

#include <gtest/gtest.h>

#include "protocol/admin/admin_api.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using runtime::Task;

class FakeServerAdmin : public ServerAdmin {
 public:
  Task<ServerCache> view_cache(CacheScope scope, std::uint32_t max_nodes) override {
    ServerCache cache;
    ModelCache model{.model = "fake", .state = "ready", .cached = true};
    ViewedSpace space{.owner = scope.cache_owner, .entries = 1};
    space.nodes.push_back({.depth = 10, .tokens = 10, .gone = MissReason::kEvicted});
    space.nodes.push_back({.parent = 0,
                           .depth = 12,
                           .tokens = 2,
                           .entry = ViewedEntry{.origin = Origin::kHistory, .hits = 3, .bytes = 99}});
    model.view.spaces.push_back(std::move(space));
    model.view.cut = max_nodes < 1'000'000;
    if (scope.all) {
      model.counts = CacheCounts{.bytes = 5, .budget_bytes = 50, .prompt_tokens = 100, .restored_tokens = 80};
      model.counts->by_reason[static_cast<std::size_t>(MissReason::kDiverged)] = 4;
      cache.tiers.push_back({.tier = Tier::kDisk, .bytes = 7});
    }
    cache.models.push_back(std::move(model));
    cache.models.push_back({.model = "asleep", .state = "unloaded"});
    co_return cache;
  }
  Task<Answer<std::uint64_t>> drop_cache(std::string model) override {
    changed += "drop " + model + ";";
    co_return std::uint64_t{3};
  }
  Task<Answer<ModelCard>> load_model(std::string name) override {
    if (name != "asleep") {
      Error error{ErrorKind::kUnknownModel, "the configuration has no model '" + name + "'", "model"};
      co_return error;
    }
    changed += "load " + name + ";";
    ModelCard card;
    card.id = name;
    co_return card;
  }
  Task<Answer<std::string>> unload_model(std::string name) override {
    changed += "unload " + name + ";";
    co_return name;
  }

  std::string changed;
};

struct Operated {
  explicit Operated(HttpOptions options = {}) : served(options, apis(options.keys)) {}
  ApiTable apis(const KeyRing& keys) {
    ApiTable table = all_apis();
    const auto scope_of = [keys](std::string_view name) -> CacheScope {
      if (keys.empty()) return {.all = true};
      const Tenant* tenant = keys.tenant_named(name);
      return {.all = tenant->is_operator, .cache_owner = tenant->cache_owner};
    };
    for (auto& route : admin::cache_routes(server_admin, scope_of)) table.routes.push_back(std::move(route));
    for (auto& route : admin::model_routes(server_admin)) table.routes.push_back(std::move(route));
    return table;
  }
  ClientResponse post(const std::string& path, const std::string& headers, const std::string& body) {
    HttpClient client(served.port());
    client.send("POST " + path + " HTTP/1.1\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.read_response();
  }

  FakeServerAdmin server_admin;
  Served served;
};

HttpOptions with_keys() {
  HttpOptions options;
  EXPECT_EQ(options.keys.add("key-of-acme acme\nkey-of-ops ops"), "");
  EXPECT_EQ(options.keys.describe({.name = "ops", .is_operator = true}), "");
  return options;
}

const std::string kJson = "Host: 127.0.0.1\r\nContent-Type: application/json\r\n";
const std::string kModel = R"({"model": "asleep"})";

TEST(CacheApi, ShowsTheTreeWithoutText) {
  Operated operated;
  HttpClient client(operated.served.port());
  const ClientResponse response = client.get("/v1/cache");
  EXPECT_EQ(response.status, 200);
  const auto body = Json::parse(response.body);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(*body->find_string("scope"), "all");
  const Json& model = body->find_array("models")->front();
  EXPECT_EQ(model.find("counts")->find("reasons")->dump(), R"({"diverged":4})");
  EXPECT_TRUE(model.find("cut")->as_bool());
  EXPECT_NE(model.find_string("note"), nullptr) << "says so where it is cut";
  const Json& nodes = *model.find_array("spaces")->front().find("nodes");
  EXPECT_EQ(nodes.as_array()[0].dump(), R"({"parent":null,"depth":10,"tokens":10,"gone":"evicted"})");
  EXPECT_EQ(*nodes.as_array()[1].find("snapshot")->find_string("origin"), "history");
  EXPECT_EQ(body->find_array("models")->back().dump(),
            R"({"model":"asleep","state":"unloaded","cached":false})");
  EXPECT_EQ(body->find_array("tiers")->size(), 1u);
}

TEST(CacheApi, ATenantSeesItsOwnAndAnOperatorAll) {
  Operated operated(with_keys());
  HttpClient client(operated.served.port());
  EXPECT_EQ(client.get("/v1/cache").status, 401);
  const auto own = Json::parse(client.get("/v1/cache", "Authorization: Bearer key-of-acme\r\n").body);
  EXPECT_EQ(*own->find_string("scope"), "own");
  EXPECT_EQ(own->find("tiers"), nullptr);
  EXPECT_EQ(own->find_array("models")->front().find("counts"), nullptr);
  EXPECT_EQ(own->find_array("models")->front().find_array("spaces")->front().find("tenant"), nullptr);
  const auto all = Json::parse(client.get("/v1/cache", "Authorization: Bearer key-of-ops\r\n").body);
  EXPECT_EQ(*all->find_string("scope"), "all");
  EXPECT_NE(all->find_array("models")->front().find("counts"), nullptr);
}

TEST(ModelApi, OperatorsLoadUnloadAndDrop) {
  Operated operated(with_keys());
  for (const char* path : {"/v1/models/load", "/v1/models/unload", "/v1/cache/drop"}) {
    EXPECT_EQ(operated.post(path, kJson, kModel).status, 401);
    EXPECT_EQ(operated.post(path, kJson + "Authorization: Bearer key-of-acme\r\n", kModel).status, 403);
  }
  EXPECT_EQ(operated.server_admin.changed, "");
  const std::string ops = kJson + "Authorization: Bearer key-of-ops\r\n";
  const ClientResponse loaded = operated.post("/v1/models/load", ops, kModel);
  EXPECT_EQ(loaded.status, 200);
  EXPECT_EQ(*Json::parse(loaded.body)->find_string("id"), "asleep");
  EXPECT_EQ(operated.post("/v1/models/unload", ops, kModel).status, 200);
  EXPECT_EQ(operated.post("/v1/cache/drop", ops, kModel).status, 200);
  EXPECT_EQ(operated.server_admin.changed, "load asleep;unload asleep;drop asleep;");
  EXPECT_EQ(operated.post("/v1/models/load", ops, R"({"model": "../x"})").status, 404);
  for (const char* body : {"{}", R"({"model": ""})", R"({"model": 3})", "[]", "{", ""}) {
    const ClientResponse refused = operated.post("/v1/models/load", ops, body);
    EXPECT_EQ(refused.status, 400) << body;
  }
}

TEST(ModelApi, NoPageOfAnotherSiteReachesIt) {
  Operated operated;
  const std::string port = std::to_string(operated.served.port());
  const std::string host = "Host: 127.0.0.1:" + port + "\r\n", json = "Content-Type: application/json\r\n";
  struct Attempt {
    std::string headers;
    int status;
  };
  const Attempt attempts[] = {
      {host + json, 200},  // not a browser
      {host + json + "Origin: http://127.0.0.1:" + port + "\r\n", 200},
      {"Host: localhost\r\nContent-Type: application/json; charset=utf-8\r\n", 200},
      {"Host: [::1]:1\r\n" + json, 200},
      {host + json + "Origin: http://127.0.0.1:1\r\n", 403},
      {host + json + "Origin: http://localhost:" + port + "\r\n", 403},
      {host + json + "Origin: https://evil.example\r\n", 403},
      {host + json + "Origin: null\r\n", 403},
      {host + json + "Sec-Fetch-Site: cross-site\r\n", 403},
      {"Host: evil.example\r\n" + json + "Origin: http://evil.example\r\n", 403},  // DNS rebinding
      {"Host: 127.0.0.1.evil.example\r\n" + json, 403},
      {"Host: [evil\r\n" + json, 403},
      {host + "Content-Type: text/plain\r\n", 415},
      {host + "Content-Type: application/x-www-form-urlencoded\r\n", 415},
      {host, 415},
  };
  for (const char* path : {"/v1/models/load", "/v1/models/unload", "/v1/cache/drop"}) {
    for (const Attempt& attempt : attempts) {
      operated.server_admin.changed.clear();
      EXPECT_EQ(operated.post(path, attempt.headers, kModel).status, attempt.status) << path << "\n"
                                                                                     << attempt.headers;
      EXPECT_EQ(operated.server_admin.changed.empty(), attempt.status != 200) << attempt.headers;
    }
  }
}

TEST(ModelApi, NamesOfTheConfigurationAreTheServers) {
  HttpOptions options;
  options.cors_origins = {"localhost", "https://chat.example"};
  Operated operated(options);
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(operated.post("/v1/models/load", "Host: chat.example\r\n" + json, kModel).status, 200);
  EXPECT_EQ(
      operated.post("/v1/models/load", "Host: 127.0.0.1\r\nOrigin: https://chat.example\r\n" + json, kModel)
          .status,
      200);
  EXPECT_EQ(operated.post("/v1/models/load", "Host: other.example\r\n" + json, kModel).status, 403);
}

}  // namespace
}  // namespace reprise::protocol
