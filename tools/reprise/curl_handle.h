#pragma once
// RAII wrappers of libcurl handles.
//
// Threading: one owner each. Create the first one before other threads use libcurl: it initializes the
// library.

#include <curl/curl.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace reprise::tools {

/// CURL and CURLM are both void.
struct CurlEnd {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct CurlMultiEnd {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};
struct CurlListEnd {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlEnd>;
using CurlMulti = std::unique_ptr<CURLM, CurlMultiEnd>;

class CurlHeaders {
 public:
  void add(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(list_.release());
    list_.reset(longer);
  }
  curl_slist* get() const { return list_.get(); }

 private:
  std::unique_ptr<curl_slist, CurlListEnd> list_;
};

/// Returns a handle that allows only http and https, also in redirects, and uses no signals. Throws
/// std::bad_alloc.
inline CurlHandle make_curl() {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  CurlHandle handle(kReady == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) throw std::bad_alloc();
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_CONNECTTIMEOUT, 10L);
  curl_easy_setopt(handle.get(), CURLOPT_USERAGENT, "reprise");
  return handle;
}

}  // namespace reprise::tools
