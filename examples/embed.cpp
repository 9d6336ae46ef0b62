// moonpad in a C++ engine: a guard who counts whom he lets in. The header is C that C++ takes as it
// is; ten lines make its handles clean up after themselves.
//
//   make && c++ -std=c++17 -Iinclude -o guard examples/embed.cpp build/libmoonpad.a -lsqlite3 -lpthread
//   ./guard gate.db
#include <moonpad.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

// ---- RAII: the ten lines ----

template <auto release> struct Release {
  template <typename T> void operator()(T *handle) const { release(handle); }
};
using Service = std::unique_ptr<moonpad_service, Release<moonpad_service_release>>;
using Session = std::unique_ptr<moonpad_session, Release<moonpad_session_free>>;

struct Check : moonpad_error {
  void operator<<(moonpad_status status) const {
    if (status != MOONPAD_OK) throw std::runtime_error(std::string(moonpad_status_name(status)) + ": " + message);
  }
};

// ---- The guard ----

static moonpad_string text(std::string_view view) { return {view.data(), view.size()}; }

static Service open(const std::string &url) {
  Check check{};
  moonpad_service *service = nullptr;
  check << moonpad_open(text(url), nullptr, &service, &check);
  return Service(service);
}

static Session wake(moonpad_service *service, const moonpad_session_name &name) {
  Check check{};
  moonpad_session *session = nullptr;
  moonpad_status status = moonpad_get_session(service, &name, nullptr, &session, &check);
  if (status == MOONPAD_NOT_FOUND) {
    status = moonpad_create_session(service, &name, text(R"({"let_in":0})"), &session, &check);
  }
  check << status;
  return Session(session);
}

static long long let_in(moonpad_session *session) {
  Check check{};
  moonpad_value value;
  check << moonpad_session_read(session, text("let_in"), text(""), &value, &check);
  const std::string count = std::to_string(value.as.integer + 1);
  const std::string event = R"({"author":"guard","actions":{"stateDelta":{"let_in":)" + count + "}}}";
  check << moonpad_append_event(session, text(event), nullptr, &check);
  return value.as.integer + 1;
}

int main(int count, char **arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: guard FILE    a SQLite file; made when it is not there\n");
    return 2;
  }
  try {
    const Service service = open(std::string("sqlite:") + arguments[1]);
    const Session guard = wake(service.get(), {text("town"), text("player"), text("guard")});
    std::printf("The guard has let in %lld.\n", let_in(guard.get()));
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "guard: %s\n", failure.what());
    return 1;
  }
}
