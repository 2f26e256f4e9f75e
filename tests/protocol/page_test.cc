// The web page: what is served is what lies in protocol/page, and neither needs nor allows anything from elsewhere.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "protocol/http/pages.h"
#include "tests/protocol/served.h"
#include "tests/source_folder.h"

namespace reprise::protocol {
namespace {

const std::filesystem::path kFolder = source_folder() / "protocol" / "page";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string path_of(const std::string& name) {
  return name == "index.html" ? "/" : "/page/" + name;
}

/// A library that the build has taken from elsewhere.
bool is_library(std::string_view path) {
  return path.starts_with("/page/vendor/");
}

std::string header_of(const ClientResponse& response, const std::string& name) {
  std::smatch found;
  const std::regex line("\r\n" + name + ": ([^\r]*)\r\n");
  return std::regex_search(response.head, found, line) ? found[1].str() : "";
}

TEST(Page, WhatIsServedIsWhatLiesInTheFolder) {
  Served served;
  HttpClient client(served.port());
  std::set<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() == ".md") continue;  // for developers
    const std::string path = path_of(file.path().filename().string());
    paths.insert(path);
    const ClientResponse response = client.get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.body, text_of(file.path())) << path;
  }
  EXPECT_GT(paths.size(), 3u);
  std::set<std::string> served_paths;
  for (const PageFile& file : page_files()) {
    if (!is_library(file.path)) served_paths.emplace(file.path);
  }
  EXPECT_EQ(served_paths, paths);
}

TEST(Page, LibrariesComeFromTheProgramItself) {
  Served served;
  HttpClient client(served.port());
  for (const char* path : {"/page/vendor/katex.js", "/page/vendor/hljs.js"}) {
    const ClientResponse response = client.get(path);
    EXPECT_EQ(response.status, 200) << path << " is empty where the build had none, but there";
    EXPECT_EQ(header_of(response, "Content-Type"), "text/javascript; charset=utf-8");
  }
}

TEST(Page, HasAPolicyThatLetsNothingElseIn) {
  Served served;
  HttpClient client(served.port());
  for (const PageFile& file : page_files()) {
    const ClientResponse response = client.get(std::string(file.path));
    const std::string policy = header_of(response, "Content-Security-Policy");
    EXPECT_TRUE(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"))
        << policy;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(header_of(response, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(header_of(response, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(header_of(response, "Content-Type"), file.content_type);
  }
}

TEST(Page, IsSentOnceToWhoKeepsIt) {
  Served served;
  HttpClient client(served.port());
  const std::string tag = header_of(client.get("/"), "ETag");
  ASSERT_GT(tag.size(), 2u);
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: W/\"x\", " + tag + "\r\n\r\n");
  const ClientResponse same = client.read_response(false);
  EXPECT_EQ(same.status, 304);
  EXPECT_FALSE(same.has("Content-Length"));
  EXPECT_EQ(header_of(same, "ETag"), tag);
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"another\"\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200) << "and the connection goes on";
  EXPECT_NE(header_of(client.get("/page/main.js"), "ETag"), tag);
}

TEST(Page, NeedsNoKeyAndCanBeLeftOut) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("12345678"), "");
  Served served(options);
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/").status, 200);
  EXPECT_EQ(client.get("/page/main.js").status, 200);
  EXPECT_EQ(client.get("/v1/models").status, 401);

  Served without(HttpOptions{.front_page = false});
  HttpClient other(without.port());
  EXPECT_EQ(other.get("/").status, 404);
  EXPECT_EQ(other.get("/page/main.js").status, 404);
}

TEST(Page, HasNothingFromElsewhereAndNothingInline) {
  struct Ban {
    const char* pattern;
    const char* why;
  };
  const Ban bans[] = {
      {R"((https?:)?//[A-Za-z0-9])", "an address elsewhere"},
      {R"(\son[a-z]+\s*=\s*["'])", "an inline handler"},
      {R"(\sstyle\s*=\s*["'])", "an inline style"},
      {R"(<style|<script(?![^>]*\ssrc=)|javascript:)", "inline script or style"},
      {R"(innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser)",
       "text parsed as HTML or script"},
      {R"(@import|url\()", "a style sheet that loads"},
  };
  for (const PageFile& file : page_files()) {
    if (is_library(file.path)) continue;  // the policy holds for them
    std::string text(file.content);
    // The name of SVG's elements looks like an address, and comments in scripts begin with two slashes.
    text = std::regex_replace(text, std::regex(R"(http://www\.w3\.org/2000/svg)"), "");
    for (const Ban& ban : bans) {
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, std::regex(ban.pattern)))
          << file.path << " has " << ban.why << ": " << found.str();
    }
  }
}

}  // namespace
}  // namespace reprise::protocol
