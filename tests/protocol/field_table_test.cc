// The table of fields and APIs in docs/api/fields.md: sends each field of each row to each API.

#include <gtest/gtest.h>

#include <fstream>

#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"
#include "tests/source_folder.h"

namespace reprise::protocol {
namespace {

struct Row {
  std::string field;  // "\"seed\": 7"
  std::vector<std::string> cells;
};

std::vector<Row> table_rows() {
  std::ifstream page(source_folder() / "docs" / "api" / "fields.md");
  std::vector<Row> rows;
  bool within = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| field, with a value |")) within = true;
    if (!within) continue;
    if (!line.starts_with("|")) break;
    const std::size_t last = line.rfind('`');
    if (last == std::string::npos) continue;
    std::vector<std::string> cells;
    for (std::size_t at = line.find('|', last) + 2; at < line.size();) {
      const std::size_t next = line.find(" |", at);
      if (next == std::string::npos) break;
      cells.push_back(line.substr(at, next - at));
      at = next + 3;
    }
    for (std::size_t at = line.find('`'); at < last;) {  // `"seed": 7`, `"top_k": 5`
      const std::size_t end = line.find('`', at + 1);
      rows.push_back({line.substr(at + 1, end - at - 1), cells});
      at = line.find('`', end + 1);
    }
  }
  return rows;
}

struct Api {
  const char* path;
  std::string base;  // a body without its closing brace
};

const std::vector<Api>& apis() {
  static const std::vector<Api> kApis = {
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])"},
      {"/v1/completions", R"({"prompt":"hi")"},
      {"/completion", R"({"prompt":"hi")"},
      {"/api/chat", R"({"model":"fake","stream":false,"messages":[{"role":"user","content":"hi"}])"},
      {"/v1/messages", R"({"messages":[{"role":"user","content":"hi"}])"},
      {"/v1/responses", R"({"input":"hi")"},
  };
  return kApis;
}

std::vector<std::string> unknown_fields(const std::string& body) {
  const auto parsed = Json::parse(body);
  const Json* own = parsed.ok() && parsed->is_object() ? parsed->find_object("reprise") : nullptr;
  const Json::Array* names = own == nullptr ? nullptr : own->find_array("unknown_fields");
  std::vector<std::string> out;
  if (names == nullptr) return out;
  for (const Json& name : *names) out.push_back(name.as_string());
  return out;
}

TEST(UnknownFields, AreNamedInEveryAnswer) {
  Served served;
  HttpClient client(served.port());
  for (const Api& api : apis()) {
    const bool ollama = std::string_view(api.path).starts_with("/api/");
    const std::string limit = std::string_view(api.path) == "/v1/messages" ? ",\"max_tokens\":8" : "";
    const std::string misspelt = R"(,"temprature":0.5,"Stream":true,"nothing":null})";
    const ClientResponse response = client.post(api.path, api.base + limit + misspelt);
    EXPECT_EQ(response.status, 200) << api.path << response.body;
    EXPECT_EQ(unknown_fields(response.body), (std::vector<std::string>{"temprature", "Stream"})) << api.path;
    if (ollama) {
      const ClientResponse within = client.post(api.path, api.base + R"(,"options":{"temprature":0.5}})");
      EXPECT_EQ(unknown_fields(within.body), std::vector<std::string>{"options.temprature"});
    }
  }
}

TEST(UnknownFields, AStreamNamesThemAtItsEnd) {
  Served served;
  HttpClient client(served.port());
  for (const Api& api : apis()) {
    if (std::string_view(api.path).starts_with("/api/")) continue;  // streams by default
    const std::string limit = std::string_view(api.path) == "/v1/messages" ? ",\"max_tokens\":8" : "";
    const ClientResponse response =
        client.post(api.path, api.base + limit + R"(,"temprature":1,"stream":true})");
    EXPECT_NE(response.body.find(R"("unknown_fields":["temprature"])"), std::string::npos)
        << api.path << response.body;
  }
}

TEST(UnknownFields, AreBoundedInNumberAndLength) {
  Served served;
  HttpClient client(served.port());
  std::string body = R"({"prompt":"hi")";
  for (int i = 0; i < 5000; ++i) body += ",\"" + std::string(200, 'x') + std::to_string(i) + "\":1";
  const ClientResponse response = client.post("/v1/completions", body + "}");
  ASSERT_EQ(response.status, 200) << response.body;
  const std::vector<std::string> unknown = unknown_fields(response.body);
  ASSERT_EQ(unknown.size(), 9u);
  EXPECT_EQ(unknown.front(), std::string(64, 'x') + "…");
  EXPECT_EQ(unknown.back(), "and 4992 more");
  // Names are truncated between characters.
  std::string wide = "x";
  for (int i = 0; i < 100; ++i) wide += "é";
  const ClientResponse cut = client.post("/v1/completions", R"({"prompt":"hi",")" + wide + "\":1}");
  ASSERT_EQ(unknown_fields(cut.body).size(), 1u) << cut.body;
  EXPECT_EQ(unknown_fields(cut.body)[0].size(), 63u + std::string_view("…").size());
}

TEST(UnknownFields, WhatClientsSendOnPurposeIsKnown) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response =
      client.post("/v1/chat/completions",
                  R"({"messages":[{"role":"user","content":"hi"}],"user":"u","store":false,"metadata":{},)"
                  R"("service_tier":"auto","stream_options":null})");
  EXPECT_TRUE(unknown_fields(response.body).empty()) << response.body;
}

TEST(UnknownFields, ABudgetOfAModelThatDoesNotReasonIsNamed) {
  Served served;
  HttpClient client(served.port());
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":8,)";
  const auto unknown_of = [&](const char* path, const std::string& budget) {
    return unknown_fields(client.post(path, body + budget + "}").body);
  };
  const std::string messages_budget = R"("thinking":{"type":"enabled","budget_tokens":1024})";
  EXPECT_EQ(unknown_of("/v1/chat/completions", R"("thinking_token_budget":64)"),
            std::vector<std::string>{"thinking_token_budget"});
  EXPECT_EQ(unknown_of("/v1/chat/completions", R"("reasoning":{"max_tokens":64})"),
            std::vector<std::string>{"reasoning.max_tokens"});
  EXPECT_EQ(unknown_of("/v1/messages", messages_budget), std::vector<std::string>{"thinking.budget_tokens"});
  EXPECT_TRUE(unknown_of("/v1/chat/completions", R"("thinking_token_budget":-1)").empty());
  served.service.set_chat_template("{{ messages[0].content }}<think></think>");
  EXPECT_TRUE(unknown_of("/v1/messages", messages_budget).empty());
}

TEST(FieldTable, EveryCellIsTrue) {
  Served served;
  served.service.set_chat_template("{{ messages[0].content }}<think></think>");
  HttpClient client(served.port());
  const std::vector<Row> rows = table_rows();
  ASSERT_GE(rows.size(), 68u) << "the table was not found, or has lost fields";
  for (const Row& row : rows) {
    ASSERT_GE(row.cells.size(), apis().size()) << row.field;
    const std::string name = row.field.substr(1, row.field.find('"', 1) - 1);
    for (std::size_t i = 0; i < apis().size(); ++i) {
      const Api& api = apis()[i];
      const std::string& cell = row.cells[i];
      const bool ollama = std::string_view(api.path).starts_with("/api/");
      const bool own = name == "images" || name == "logprobs";  // top-level, not in the options
      const bool in_options = ollama && (cell == "options" || (cell == "no" && !own));
      const bool needs_limit = std::string_view(api.path) == "/v1/messages" && name != "max_tokens";
      const std::string body = api.base + (needs_limit ? ",\"max_tokens\":8" : "") +
                               (in_options ? ",\"options\":{" + row.field + "}}" : "," + row.field + "}");
      const ClientResponse response = client.post(api.path, body);
      const std::string what = std::string(api.path) + " " + row.field + ": " + response.body;
      if (cell == "no") {
        EXPECT_EQ(response.status, 400) << what;
        EXPECT_NE(response.body.find(name), std::string::npos) << what;
      } else {
        EXPECT_TRUE(cell == "yes" || cell == "options" || cell == "–") << what << cell;
        EXPECT_EQ(response.status, 200) << what;
        // The answer names exactly the unknown fields.
        const std::vector<std::string> unknown = unknown_fields(response.body);
        if (cell == "–") {
          EXPECT_EQ(unknown, std::vector<std::string>{name}) << what;
        } else {
          EXPECT_TRUE(unknown.empty()) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::protocol
