/*
** TLS: who the other side is, is always checked, by its certificate and the name in the URL.
** hiredis has it since 1.0, where it was built with it; it does not look at the name: OpenSSL does.
*/
#include "base/error.h"
#include "store/redis/redis.h"

#ifdef MP_REDIS_TLS
#include <arpa/inet.h>
#include <hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"

/* ---- what all connections of a store have in common ---- */

/* The system's reason comes first, OpenSSL's own last. */
static moonpad_status refuse_file(const char *option, const char *file, moonpad_error *error) {
  char text[128];
  unsigned long first = ERR_peek_error();
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  if (ERR_GET_LIB(first) == ERR_LIB_SYS) reason = mp_system_message(ERR_GET_REASON(first), text, sizeof text);
  ERR_clear_error();
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option %s: %.150s: %s", option, file,
                 reason == NULL ? "cannot be used" : reason);
}

/* OpenSSL would ask for the password of a key on the terminal. */
static int refuse_password(char *text, int size, int is_new, void *context) {
  (void)text, (void)size, (void)is_new, (void)context;
  return -1;
}

static moonpad_status take_own_certificate(const mp_redis *store, SSL_CTX *tls, moonpad_error *error) {
  const char *cert = store->cert, *key = store->key != NULL ? store->key : cert;
  if (cert == NULL && key == NULL) return MOONPAD_OK;
  if (cert == NULL) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "the URL's option key: cert is missing");
  SSL_CTX_set_default_passwd_cb(tls, refuse_password);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1) return refuse_file("cert", cert, error);
  bool is_well = SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1 && SSL_CTX_check_private_key(tls) == 1;
  return is_well ? MOONPAD_OK : refuse_file("key", key, error);
}

static moonpad_status take_authorities(const mp_redis *store, SSL_CTX *tls, moonpad_error *error) {
  const char *ca = store->ca;
  ERR_clear_error();
  int found = ca == NULL ? SSL_CTX_set_default_verify_paths(tls) : SSL_CTX_load_verify_locations(tls, ca, NULL);
  return found == 1 ? MOONPAD_OK : refuse_file("ca", ca == NULL ? "the system's" : ca, error);
}

moonpad_status mp_redis_check_tls(moonpad_error *error) {
  (void)error;
  return MOONPAD_OK;
}

moonpad_status mp_redis_make_tls(mp_redis *store, moonpad_error *error) {
  SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
  if (tls == NULL) return mp_no_memory(error);
  store->tls = tls;
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
  if (SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1) return mp_no_memory(error);
  moonpad_status status = take_authorities(store, tls, error);
  return status == MOONPAD_OK ? take_own_certificate(store, tls, error) : status;
}

void mp_redis_free_tls(mp_redis *store) {
  SSL_CTX_free(store->tls);
}

/* ---- a connection ---- */

static bool expect_host(SSL *ssl, const char *host) {
  unsigned char address[sizeof(struct in6_addr)];
  bool is_address = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
  if (is_address) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
  return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

/* Why is in the context of hiredis, as of every failure. */
static void say_why(const mp_redis_node *node, SSL *ssl) {
  redisContext *redis = node->redis;
  long found = SSL_get_verify_result(ssl);
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  const BIO *socket = SSL_get_rbio(ssl);
  if (redis->err == REDIS_ERR_OOM) return;
  if (redis->err == 0) redis->err = REDIS_ERR_OTHER;
  if (found != X509_V_OK) {
    snprintf(redis->errstr, sizeof redis->errstr, "its certificate: %s", X509_verify_cert_error_string(found));
  } else if (reason == NULL && socket != NULL && BIO_should_retry(socket)) {
    snprintf(redis->errstr, sizeof redis->errstr, "TLS: it has said nothing for %.0f s (has the server TLS there?)",
             node->silence);
  } else {
    snprintf(redis->errstr, sizeof redis->errstr, "TLS: %s",
             reason != NULL ? reason : "the connection has ended (has the server TLS there?)");
  }
}

static bool shake_hands(const mp_redis *store, const mp_redis_node *node) {
  SSL *ssl = SSL_new(store->tls);
  if (ssl == NULL) {
    node->redis->err = REDIS_ERR_OOM;
  } else if (expect_host(ssl, node->address.host) && redisInitiateSSL(node->redis, ssl) == REDIS_OK) {
    return true;
  } else {
    say_why(node, ssl);
  }
  SSL_free(ssl);
  return false;
}

/* hiredis would give up at a signal. */
bool mp_redis_start_tls(const mp_redis *store, mp_redis_node *node) {
  sigset_t all, before;
  mp_sigpipe held;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  mp_sigpipe_hold(&held);
  ERR_clear_error();
  bool is_well = shake_hands(store, node);
  ERR_clear_error();
  mp_sigpipe_release(&held);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_well;
}

void mp_redis_before_tls(const mp_redis *store) {
  if (store->has_tls) ERR_clear_error();
}

void mp_redis_after_tls(const mp_redis *store, redisContext *redis) {
  if (!store->has_tls || redis->err == 0) return;
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  if (reason != NULL) snprintf(redis->errstr, sizeof redis->errstr, "TLS: %s", reason);
  ERR_clear_error();
}

#else

moonpad_status mp_redis_check_tls(moonpad_error *error) {
  return mp_fail(
      error, MOONPAD_UNSUPPORTED,
      "rediss: moonpad was built with a hiredis that has no TLS (since 1.0 it may have): put a TLS proxy such "
      "as stunnel before the server, and use redis: to get there");
}

moonpad_status mp_redis_make_tls(mp_redis *store, moonpad_error *error) {
  (void)store;
  return mp_redis_check_tls(error);
}

void mp_redis_free_tls(mp_redis *store) {
  (void)store;
}

bool mp_redis_start_tls(const mp_redis *store, mp_redis_node *node) {
  (void)store, (void)node;
  return false;
}

void mp_redis_before_tls(const mp_redis *store) {
  (void)store;
}

void mp_redis_after_tls(const mp_redis *store, redisContext *redis) {
  (void)store, (void)redis;
}
#endif
