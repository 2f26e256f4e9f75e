// The table of fields and APIs in protocol/README.md: every cell is sent.

#include <gtest/gtest.h>

#include <fstream>

#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

struct Row {
  std::string field;  // "\"seed\": 7"
  std::vector<std::string> cells;
};

std::vector<Row> table_rows() {
  std::ifstream readme(REPRISE_SOURCE_DIR "/protocol/README.md");
  std::vector<Row> rows;
  bool within = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("| field, with a value |")) within = true;
    if (!within) continue;
    if (!line.starts_with("|")) break;
    const std::size_t begin = line.find('`');
    const std::size_t end = line.rfind('`');
    if (begin == end || begin == std::string::npos) continue;
    Row row{line.substr(begin + 1, end - begin - 1), {}};
    for (std::size_t at = line.find('|', end) + 2; at < line.size();) {
      const std::size_t next = line.find(" |", at);
      if (next == std::string::npos) break;
      row.cells.push_back(line.substr(at, next - at));
      at = next + 3;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Api {
  const char* path;
  std::string base;  // a body without its last brace
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

TEST(FieldTable, EveryCellIsTrue) {
  Served served;
  HttpClient client(served.port());
  const std::vector<Row> rows = table_rows();
  ASSERT_GE(rows.size(), 50u) << "the table was not found";
  for (const Row& row : rows) {
    ASSERT_GE(row.cells.size(), apis().size()) << row.field;
    const std::string name = row.field.substr(1, row.field.find('"', 1) - 1);
    for (std::size_t i = 0; i < apis().size(); ++i) {
      const Api& api = apis()[i];
      const std::string& cell = row.cells[i];
      const bool ollama = std::string_view(api.path).starts_with("/api/");
      const bool own = name == "images" || name == "logprobs";  // beside the options
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
      }
    }
  }
}

}  // namespace
}  // namespace reprise::protocol
