import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import javax.naming.InitialContext;
import javax.sql.DataSource;

/**
 * Takes so many milliseconds, with ?until=FILE until that file is there if it comes sooner, with ?db=1 while it holds a
 * connection of the pool; with ?fail=1 it ends with an error.
 */
@WebServlet("/work")
public class Work extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            if (request.getParameter("db") != null) {
                DataSource pool = (DataSource) new InitialContext().lookup("java:comp/env/jdbc/shop");
                try (Connection connection = pool.getConnection()) {
                    take(request);
                }
            } else {
                take(request);
            }
        } catch (Exception error) {
            throw new IOException(error);
        }
        if (request.getParameter("fail") != null) {
            response.sendError(500);
            return;
        }
        response.setContentType("text/plain");
        response.getWriter().print("done");
    }

    private static void take(HttpServletRequest request) throws InterruptedException {
        int milliseconds = Integer.parseInt(request.getParameter("ms"));
        String until = request.getParameter("until");
        if (until == null) {
            Thread.sleep(milliseconds);
            return;
        }
        long end = System.nanoTime() + milliseconds * 1_000_000L;
        while (!Files.exists(Path.of(until)) && System.nanoTime() < end) {
            Thread.sleep(5);
        }
    }
}
