package shop;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;

/** Lets everybody keep images and the style sheet for a day; the server itself adds ETag and Last-Modified. */
final class StaticFiles implements Filter {
    private static final String KEEP = "public, max-age=86400";

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        ((HttpServletResponse) response).setHeader("Cache-Control", KEEP);
        chain.doFilter(request, new Response((HttpServletResponse) response));
    }

    /** An answer whose errors are not kept. */
    private static final class Response extends HttpServletResponseWrapper {
        Response(HttpServletResponse response) {
            super(response);
        }

        @Override
        public void sendError(int status) throws IOException {
            setHeader("Cache-Control", "no-store");
            super.sendError(status);
        }

        @Override
        public void sendError(int status, String message) throws IOException {
            setHeader("Cache-Control", "no-store");
            super.sendError(status, message);
        }
    }
}
