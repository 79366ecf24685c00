package shop;

import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;

/** Serves one page. It is sent when it is whole, after its transaction, and with its connection back in the pool. */
final class PageServlet extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private static final int ATTEMPTS = 5;
    private static final String DEADLOCK = "40001";

    private record Answer(int status, Html page, List<Cookie> cookies) {}

    private final String name;
    private final Set<String> methods;
    private final boolean writes;
    private final transient Page page;
    private final transient DataSource pool;
    private final transient BestSellers bestSellers;

    /**
     * A page's servlet.
     *
     * @param methods GET, POST or both
     * @param writes whether it needs a transaction
     */
    PageServlet(String name, Set<String> methods, boolean writes, Page page, DataSource pool, BestSellers bestSellers) {
        this.name = name;
        this.methods = methods;
        this.writes = writes;
        this.page = page;
        this.pool = pool;
        this.bestSellers = bestSellers;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String method = request.getMethod().equals("HEAD") ? "GET" : request.getMethod();
        Answer answer;
        if (methods.contains(method)) {
            request.setCharacterEncoding("UTF-8");
            answer = answer(request);
        } else {
            response.setHeader("Allow", String.join(", ", methods));
            answer = error(405, "This page cannot be asked for like this.");
        }
        send(response, answer);
    }

    private Answer answer(HttpServletRequest request) {
        for (int attempt = 1; ; attempt++) {
            try {
                return made(request);
            } catch (Refused refused) {
                return error(refused.status, refused.getMessage());
            } catch (SQLException failure) {
                if (DEADLOCK.equals(failure.getSQLState()) && attempt < ATTEMPTS) {
                    continue;
                }
                log(name, failure);
                return error(503, "The shop cannot reach its books. Please try again.");
            } catch (IllegalStateException unreadable) {
                // Tomcat's word for a form that is too long or has too many fields.
                return error(400, "the parameters cannot be read");
            }
        }
    }

    private Answer made(HttpServletRequest request) throws SQLException {
        try (Connection db = pool.getConnection()) {
            Visit visit = new Visit(request, db, bestSellers);
            if (!writes) {
                return new Answer(200, page.render(visit), visit.cookies);
            }
            db.setAutoCommit(false);
            try {
                Html html = page.render(visit);
                db.commit();
                return new Answer(200, html, visit.cookies);
            } finally {
                // After a commit there is nothing to take back, and no round trip.
                db.rollback();
                db.setAutoCommit(true);
            }
        }
    }

    private static Answer error(int status, String message) {
        Html body = new Html().add("<p class=\"message\">{}</p><p><a href=\"home\">To the shop</a></p>", message);
        return new Answer(status, Layout.page("error", "Sorry", body), List.of());
    }

    private static void send(HttpServletResponse response, Answer answer) throws IOException {
        byte[] body = answer.page.toString().getBytes(StandardCharsets.UTF_8);
        response.setStatus(answer.status);
        response.setContentType("text/html;charset=UTF-8");
        response.setHeader("Cache-Control", "no-store");
        response.setHeader("Content-Security-Policy", "default-src 'self'; base-uri 'none'; frame-ancestors 'none'");
        response.setHeader("X-Content-Type-Options", "nosniff");
        answer.cookies.forEach(response::addCookie);
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }
}
